package local

import "errors"

var (
	// ErrNotInstalled is returned when a server's program is not on this machine; its text names the
	// package and the command that installs it.
	ErrNotInstalled = errors.New("not installed")

	// ErrInUse is returned when a server still runs on the state folder.
	ErrInUse = errors.New("state folder in use")

	// errPortTaken says that another process took the port between our look and the server's bind.
	errPortTaken = errors.New("port taken")
)
