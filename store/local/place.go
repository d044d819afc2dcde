package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	temporaryPattern = "holdfast-temp-*"
	inUseFile        = "in-use.lock"
	locationFile     = "LOCATION" // in the folder that was asked for: where the stand-in is
	originFile       = "ORIGIN"   // in the stand-in: for whom
)

// shelters are where state goes that a server's user could not reach in its own place. The first is
// for good; some systems clean the second of what nobody touched for a month.
var shelters = []string{"/var/lib/holdfast-dev", "/var/tmp/holdfast-dev"}

// relocate returns the folder that stands in for dir, and makes it on the first call. The name of the
// stand-in is in a file in dir and random, so that deleting dir starts afresh, as one expects, and moving dir
// takes the state along.
func relocate(ctx context.Context, dir string, as *identity) (string, error) {
	lock, err := lockFile(ctx, filepath.Join(dir, locationFile+".lock"), 10*time.Second) // Redis and Postgres may start at once
	if err != nil {
		return "", err
	}
	defer lock.Close()
	path := filepath.Join(dir, locationFile)
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("state folder: %w", err)
	}
	if place := strings.TrimSpace(string(text)); isStandIn(place) {
		return place, nil
	}
	var failures []error
	for _, shelter := range shelters {
		place, err := makeStandIn(ctx, shelter, dir, as)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := os.WriteFile(path, []byte(place+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("state folder: %w", err)
		}
		return place, nil
	}
	return "", fmt.Errorf("the server's user (id %d) cannot reach %s, since a parent folder is closed to it, "+
		"and there is no other place: %w", as.uid, dir, errors.Join(failures...))
}

// isStandIn checks a name that we read from a file: it must be a folder of root's directly below a shelter.
func isStandIn(place string) bool {
	for _, shelter := range shelters {
		if filepath.Dir(place) == shelter && trusted(shelter) == nil && trusted(place) == nil {
			return true
		}
	}
	return false
}

func makeStandIn(ctx context.Context, shelter, origin string, as *identity) (string, error) {
	if err := os.Mkdir(shelter, 0o711); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("shelter: %w", err)
	}
	if err := trusted(shelter); err != nil {
		return "", err
	}
	forgetTemporary(ctx, shelter)
	dir, err := makeBelow(shelter, "state-*", as)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, originFile), []byte(origin), 0o600); err != nil {
		return "", errors.Join(fmt.Errorf("shelter: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// forgetTemporary removes the stand-ins of temporary folders that are gone, such as those of tests. What
// stands in for any other folder stays, as that folder may just have been moved.
func forgetTemporary(ctx context.Context, shelter string) {
	dirs, _ := filepath.Glob(filepath.Join(shelter, "state-*")) // the pattern is fixed and right
	for _, dir := range dirs {
		origin, err := os.ReadFile(filepath.Join(dir, originFile))
		if err != nil || !strings.HasPrefix(string(origin), os.TempDir()+string(filepath.Separator)) {
			continue
		}
		location, _ := os.ReadFile(filepath.Join(string(origin), locationFile)) // none: empty
		if strings.TrimSpace(string(location)) != dir && !young(dir) && unlocked(ctx, dir) {
			_ = os.RemoveAll(dir) // next time, then
		}
	}
}

// trusted refuses a folder that somebody else could have put in our way.
func trusted(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	if uid, _ := owner(info); !info.IsDir() || int(uid) != os.Geteuid() || info.Mode()&0o022 != 0 {
		return fmt.Errorf("folder %s: not ours alone", path)
	}
	return nil
}

// makeBelow makes a new folder that the identity can reach.
func makeBelow(parent, pattern string, as *identity) (string, error) {
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	if as == nil {
		return dir, nil
	}
	err = os.Chmod(dir, 0o711)
	reachable := false
	if err == nil {
		reachable, err = as.canReach(dir)
	}
	if err == nil && !reachable {
		err = fmt.Errorf("the server's user (id %d) cannot reach %s: a parent folder is closed to it", as.uid, dir)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// makeTemporary makes a folder for a server that keeps nothing, and removes those that killed processes left.
func makeTemporary(ctx context.Context, as *identity) (string, *os.File, error) {
	var failures []error
	for _, parent := range []string{os.TempDir(), "/var/tmp"} {
		sweep(ctx, parent)
		dir, err := makeBelow(parent, temporaryPattern, as)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		dir, err = filepath.EvalSymlinks(dir)
		if err != nil {
			return "", nil, fmt.Errorf("temporary folder: %w", err)
		}
		inUse, err := lockFile(ctx, filepath.Join(dir, inUseFile), 0)
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		return dir, inUse, nil
	}
	return "", nil, errors.Join(failures...)
}

// sweep removes temporary folders whose process and servers are gone. It is best effort, and leaves young
// folders alone, as one that is just being made has no lock yet.
func sweep(ctx context.Context, parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, temporaryPattern)) // the pattern is fixed and right
	for _, dir := range dirs {
		if trusted(dir) == nil && !young(dir) && unlocked(ctx, dir) {
			_ = os.RemoveAll(dir) // next time, then
		}
	}
}

// young tells whether a folder may be one that is just being made.
func young(dir string) bool {
	info, err := os.Lstat(dir)
	return err != nil || time.Since(info.ModTime()) < time.Minute
}

// unlocked tells whether neither a server nor a process of ours holds the folder.
func unlocked(ctx context.Context, dir string) bool {
	locks, _ := filepath.Glob(filepath.Join(dir, "*.lock")) // the pattern is fixed and right
	for _, path := range locks {
		lock, err := lockFile(ctx, path, 0)
		if err != nil {
			return false
		}
		defer lock.Close()
	}
	return true
}
