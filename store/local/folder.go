package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// folder is where one server lives.
type folder struct {
	dir   string    // ours: log and lock
	data  string    // the server's own, below dir
	as    *identity // who owns data and runs the server; nil: we do
	inUse *os.File  // a temporary folder's mark against being swept; nil for a lasting folder
}

func (f *folder) log(name string) string { return filepath.Join(f.dir, name+".log") }

// openFolder makes dir for a server of this name, which under root runs as one of users. An empty dir
// asks for a temporary folder.
func openFolder(ctx context.Context, dir, name string, users []string) (*folder, error) {
	f := &folder{}
	var err error
	if os.Geteuid() == 0 {
		if f.as, err = firstUser(users); err != nil {
			return nil, err
		}
	}
	if dir == "" {
		f.dir, f.inUse, err = makeTemporary(ctx, f.as)
	} else {
		f.dir, err = f.makeLasting(ctx, dir, name)
	}
	if err != nil {
		return nil, err
	}
	f.data = filepath.Join(f.dir, name)
	return f, nil
}

// makeLasting makes the folder that was asked for, or finds another place if the server's user could not
// reach it there.
func (f *folder) makeLasting(ctx context.Context, dir, name string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	if err := os.MkdirAll(dir, f.dirMode()); err != nil {
		return "", fmt.Errorf("make state folder: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	if f.as == nil {
		return dir, nil
	}
	as := f.as
	if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.IsDir() {
		if uid, gid := owner(info); uid != 0 {
			as = &identity{uid: uid, gid: gid}
		}
	}
	reachable, err := as.canReach(dir)
	if err != nil {
		return "", err
	}
	if !reachable {
		return relocate(ctx, dir, f.as)
	}
	return dir, nil
}

// dirMode lets the server's user pass through, and nobody else see anything, as the data folder is closed to others.
func (f *folder) dirMode() os.FileMode {
	if f.as != nil {
		return 0o711
	}
	return 0o700
}

// makeData makes the data folder, or takes the one that is there. As root it runs the server as the owner of an
// existing one, so that a folder keeps its owner whoever starts the server. Only an empty folder
// changes hands: nothing of somebody else's is ever given away. It runs under the folder's lock.
func (f *folder) makeData() error {
	info, err := os.Lstat(f.data)
	if os.IsNotExist(err) {
		if err := os.Mkdir(f.data, 0o700); err != nil {
			return fmt.Errorf("make data folder: %w", err)
		}
		return f.give(f.data)
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("data folder %s: not a folder", f.data)
	}
	uid, gid := owner(info)
	root := os.Geteuid() == 0
	switch {
	case root && uid != 0:
		f.as = &identity{uid: uid, gid: gid}
		return nil
	case !root && int(uid) == os.Geteuid():
		return nil
	case !root:
		return fmt.Errorf("data folder %s belongs to user id %d: run as that user, or choose another state folder", f.data, uid)
	}
	entries, err := os.ReadDir(f.data)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("data folder %s belongs to root and is not empty: not ours; choose another state folder", f.data)
	}
	return f.give(f.data)
}

// give makes the server's user the owner of a folder that we just made.
func (f *folder) give(path string) error {
	if f.as == nil {
		return nil
	}
	if err := os.Chown(path, int(f.as.uid), int(f.as.gid)); err != nil {
		return fmt.Errorf("give %s to the server's user: %w", path, err)
	}
	return nil
}

// remove deletes a temporary folder; a lasting one stays.
func (f *folder) remove() error {
	if f.inUse == nil {
		return nil
	}
	defer f.inUse.Close()
	if err := os.RemoveAll(f.dir); err != nil {
		return fmt.Errorf("remove temporary folder: %w", err)
	}
	return nil
}
