package local

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Windows has neither of these signals nor the servers; the package compiles there, and that is all.
const (
	signalPause  = syscall.SIGTERM
	signalResume = syscall.SIGTERM
)

const ownDeathSignal = false

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func serverAttr(*identity, syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func tryLock(*os.File) (bool, error) {
	return false, errors.New("local servers need Linux, macOS or another Unix (or WSL)")
}

func owner(fs.FileInfo) (uid, gid uint32) { return 0, 0 }

func exists(int) bool { return false }

func alive(int) bool { return false }

func kill(int, syscall.Signal) {}

func processTable() map[int][]int { return nil }

func isPostgres(int) bool { return false }
