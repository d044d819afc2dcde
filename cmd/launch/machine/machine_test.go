package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	root := t.TempDir()
	w := &Watch{root: root, pids: map[string]int{"server": 7, "gone": 8}}
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", "cpu  100 0 50 800 10 0 20 20 5 5\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	write("7/stat", "7 (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 200 50 0 0 20\n")
	before := w.Read()
	write("stat", "cpu  150 0 100 860 10 0 20 60 5 5\n")
	write("7/stat", "7 (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 250 75 0 0 20\n")
	u := w.Read().Since(before)
	if Percent(u.Steal) != "20.0 %" || Percent(u.Busy) != "70.0 %" {
		t.Errorf("steal %s, busy %s", Percent(u.Steal), Percent(u.Busy))
	}
	if len(u.CPU) != 1 || u.CPU["server"] != 750*time.Millisecond {
		t.Errorf("CPU %v", u.CPU)
	}
}

func TestUnknown(t *testing.T) {
	w := &Watch{root: t.TempDir()}
	if u := w.Read().Since(w.Read()); u.Steal != nil || len(u.CPU) != 0 || Percent(u.Busy) != "not known" {
		t.Errorf("usage %+v", u)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8 9"} {
		if total, idle, steal := machineTime(text); total != 0 || idle != 0 || steal != 0 {
			t.Errorf("%q: %d, %d, %d", text, total, idle, steal)
		}
	}
}
