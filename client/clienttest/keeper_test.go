package clienttest

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestKeeperEndsWithUs: when its standard input ends, which the kernel sees to when a test is killed, so does the program.
func TestKeeperEndsWithUs(t *testing.T) {
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", keeper, "sh", "/bin/sh", "-c", "echo $$; exec tail -f /dev/null")
	alive, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	if err := alive.Close(); err != nil {
		t.Fatal(err)
	}
	_ = shell.Wait() // "terminated", as meant
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the program is still there: %v", err)
	}
}
