//go:build !linux

package compare

import "syscall"

func endsWithUs() *syscall.SysProcAttr { return nil }
