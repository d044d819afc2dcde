// Package output finds out, before anything is measured, whether the files that are asked for can be written.
package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Check says why the file that a flag names cannot be written. What is in it stays; no name is no file.
func Check(flag, name string) error {
	if name == "" {
		return nil
	}
	_, err := os.Stat(name)
	isNew := errors.Is(err, fs.ErrNotExist)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if isNew {
		return os.Remove(name)
	}
	return nil
}
