package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestNobodyReads: a reader who goes, as `launch ... | head -1` does, ends the load as an interrupt does. It does not end
// the program before it has closed its allotment.
func TestNobodyReads(t *testing.T) {
	for name, args := range map[string][]string{
		"a preset":      {"--requests=6000", "--duration=5m", "--capacity=5000"},
		"a closed loop": {"closed", "--rounds=600", "--warm-up=0s", "--duration=100ms", "--in-flight=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, address := startCareless(t)
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the loads would take longer
			defer cancel()
			launch := exec.CommandContext(ctx, os.Args[0], append(args, "--addr="+address)...)
			launch.Env = append(os.Environ(), asLaunch+"=1")
			launch.Stdout, launch.Stderr = write, write
			err = launch.Start()
			_ = write.Close() // it has its own
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(read).ReadString('\n')
			if err != nil {
				t.Errorf("it wrote %q, and then %v", line, err)
			}
			_ = read.Close()
			var exit *exec.ExitError
			if err := launch.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitError {
				t.Errorf("it ended with %v, want exit code %d", err, exitError)
			}
			if !server.closed() {
				t.Error("the allotment is left open")
			}
		})
	}
}
