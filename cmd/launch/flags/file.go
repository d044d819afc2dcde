package flags

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File says why the file that a flag names cannot be written. What is in it stays; no name is no file.
func File(flag, name string) error {
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
