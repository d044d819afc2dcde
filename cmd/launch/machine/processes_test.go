package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fakeProc is a /proc with these files.
func fakeProc(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSpentIsOfTheWholeTree(t *testing.T) {
	t.Parallel()
	root := fakeProc(t, map[string]string{
		"10/stat":  "10 (postgres) S 1 10 10 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 0\n",
		"11/stat":  "11 (a) b) (c) S 10 10 10 0 -1 0 0 0 0 0 10 20 0 0 20 0 1 0 0\n",
		"12/stat":  "12 (grandchild) R 11 10 10 0 -1 0 0 0 0 0 100 200 0 0 20 0 1 0 0\n",
		"20/stat":  "20 (redis) S 1 10 10 0 -1 0 0 0 0 0 1000 0 0 0 20 0 1 0 0\n",
		"30/stat":  "30 (stranger) S 1 10 10 0 -1 0 0 0 0 0 5000 0 0 0 20 0 1 0 0\n",
		"net/stat": "not a process",
	})
	for _, test := range []struct {
		pids []int
		want time.Duration
	}{
		{[]int{10}, 3400 * time.Millisecond},
		{[]int{20, 10}, 13400 * time.Millisecond},
	} {
		if got, err := spent(root, test.pids); err != nil || got != test.want {
			t.Errorf("%d: %v, %v, want %v", test.pids, got, err, test.want)
		}
	}
	if got, err := spent(root, []int{10, 99}); err == nil {
		t.Errorf("a process that has ended: %v", got)
	}
}

func TestStatThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1 (a) S", "1 (a) S x 1 1 0 -1 0 0 0 0 0 1 2 3 4", "1 (a) S 1 1 1 0 -1 0 0 0 0 0 1 2 x 4"} {
		if p, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

// TestOwnProcess: the real /proc is as we think.
func TestOwnProcess(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux tells")
	}
	if used, err := Spent([]int{os.Getpid()}); err != nil || used < 0 {
		t.Errorf("%v, %v", used, err)
	}
}
