//go:build failpoints

package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

const child = "FAILPOINT_TEST_CHILD"

// TestNamedPointKills runs itself as a child that passes two marks.
func TestNamedPointKills(t *testing.T) {
	if os.Getenv(child) != "" {
		failpoint.Hit("first")
		failpoint.Hit("second")
		return
	}
	for _, c := range []struct {
		point string
		code  int
	}{{"first", 137}, {"second", 137}, {"third", 0}, {"", 0}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNamedPointKills$")
		cmd.Env = append(os.Environ(), child+"=1", "HOLDFAST_FAILPOINT="+c.point)
		err := cmd.Run()
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != c.code {
			t.Errorf("a process with the fail point %q ended with %d, want %d", c.point, code, c.code)
		}
	}
}

func TestHookIsTold(t *testing.T) {
	var got []string
	failpoint.Set(func(point string) { got = append(got, point) })
	failpoint.Hit("first")
	failpoint.Hit("second")
	failpoint.Set(nil)
	failpoint.Hit("third")
	if diff := cmp.Diff([]string{"first", "second"}, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}
