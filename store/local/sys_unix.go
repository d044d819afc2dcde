//go:build unix

package local

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	signalPause  = syscall.SIGSTOP
	signalResume = syscall.SIGCONT
)

// ownGroup puts a child into a process group of its own, away from the terminal's Ctrl-C.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func setIdentity(attr *syscall.SysProcAttr, as *identity) {
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid} // and no other groups
	}
}

// tryLock takes a lock that belongs to the open file: children that inherit the file hold it too, and it ends
// with the last of them. It returns false if another open file has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func owner(info fs.FileInfo) (uid, gid uint32) {
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

// exists tells whether a process number is taken, be it by another user's process or by one that has ended and that
// nobody has waited for.
func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func kill(pid int, signal syscall.Signal) { _ = syscall.Kill(pid, signal) } // fails only if it is gone
