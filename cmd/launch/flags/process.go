package flags

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
)

// Process says why a flag names no process of this machine. 0 is none that is asked for.
func Process(flag string, pid int) error {
	if err := Count(flag, pid, 0, math.MaxInt32); err != nil || pid == 0 {
		return err
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Signal(syscall.Signal(0)) // sends nothing
	}
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s is %d, and there is no such process on this machine", flag, pid)
	}
	return nil // also where that cannot be told, or it is somebody else's
}
