//go:build !failpoints

package failpoint_test

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// In a build for production a mark does nothing, whatever the environment says.
func TestMarksAreOff(t *testing.T) {
	t.Setenv("HOLDFAST_FAILPOINT", "here")
	failpoint.Hit("here")
}
