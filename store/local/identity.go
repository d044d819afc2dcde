package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// identity is the unprivileged user that a server runs as when we are root.
type identity struct {
	uid, gid uint32
}

// firstUser returns the first of these users that this machine has.
func firstUser(names []string) (*identity, error) {
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue // the usual case: not this one
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		if uid != 0 {
			return &identity{uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("running as root, and none of the users %v exists to run the server as", names)
}

// canReach tells whether the identity may pass through a folder and all of its parents. It looks at mode
// bits alone: where an access list grants more, the answer is a needless no, which does no harm.
func (as *identity) canReach(path string) (bool, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, fmt.Errorf("state folder: %w", err)
	}
	for {
		info, err := os.Stat(path)
		if err != nil {
			return false, fmt.Errorf("state folder: %w", err)
		}
		if !as.mayPass(info) {
			return false, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return true, nil
		}
		path = parent
	}
}

// mayPass reads the execute bit of the class that the kernel would use.
func (as *identity) mayPass(info fs.FileInfo) bool {
	uid, gid := owner(info)
	switch {
	case uid == as.uid:
		return info.Mode()&0o100 != 0
	case gid == as.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}
