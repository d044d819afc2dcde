//go:build !linux

package program

import "syscall"

func endsWithUs() *syscall.SysProcAttr { return nil }
