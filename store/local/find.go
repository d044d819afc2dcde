package local

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// redisFolders, postgresFolders and pgbouncerFolders are searched when PATH does not lead to a server. Debian keeps the
// Postgres server out of PATH, one folder for each version, and so does Homebrew.
var (
	redisFolders = []string{
		"/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/opt/redis/bin", "/usr/local/opt/redis/bin",
	}
	postgresFolders = []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/bin",
		"/opt/homebrew/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	}
	pgbouncerFolders = []string{
		"/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/opt/pgbouncer/bin", "/usr/local/opt/pgbouncer/bin",
	}
)

// findRedis returns the path of redis-server.
func findRedis() (string, error) {
	if path := find(redisFolders, "redis-server"); path != "" {
		return path, nil
	}
	return "", notInstalled("redis-server", redisFolders, "redis-server", "redis")
}

// findPostgres returns the paths of postgres and of the initdb beside it, so that both are of one version.
func findPostgres() (postgres, initdb string, err error) {
	if postgres = find(postgresFolders, "postgres", "initdb"); postgres != "" {
		return postgres, filepath.Join(filepath.Dir(postgres), "initdb"), nil
	}
	return "", "", notInstalled("postgres with initdb", postgresFolders, "postgresql", "postgresql")
}

// findPgBouncer returns the path of pgbouncer.
func findPgBouncer() (string, error) {
	if path := find(pgbouncerFolders, "pgbouncer"); path != "" {
		return path, nil
	}
	return "", notInstalled("pgbouncer", pgbouncerFolders, "pgbouncer", "pgbouncer")
}

func notInstalled(what string, folders []string, debian, brew string) error {
	install := "apt-get install " + debian
	if runtime.GOOS == "darwin" {
		install = "brew install " + brew
	}
	return fmt.Errorf("%s: %w (looked in PATH and %v); install it with: %s", what, ErrNotInstalled, folders, install)
}

// find looks for a program in PATH, then in the folders, the newest version first. Programs named in
// beside must be in the same folder.
func find(folders []string, program string, beside ...string) string {
	var candidates []string
	if path, err := exec.LookPath(program); err == nil {
		candidates = append(candidates, path)
	}
	for _, pattern := range folders {
		found, err := filepath.Glob(filepath.Join(pattern, program))
		if err != nil {
			continue // only a bad pattern, and ours are fixed
		}
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
		candidates = append(candidates, found...)
	}
	for _, path := range candidates {
		if path, ok := complete(path, beside); ok {
			return path
		}
	}
	return ""
}

// complete follows links to the real program, since a link in PATH says nothing about what lies beside it.
func complete(path string, beside []string) (string, bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	if len(beside) > 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", false
		}
	}
	for _, program := range append([]string{filepath.Base(path)}, beside...) {
		if _, err := exec.LookPath(filepath.Join(filepath.Dir(path), program)); err != nil {
			return "", false
		}
	}
	return path, true
}

var digits = regexp.MustCompile(`\d+`)

// version is the first number in a path, such as 15 in /usr/lib/postgresql/15/bin/postgres; 0 if there is none.
func version(path string) int { return number(digits.FindString(path)) }

// number is 0 for a text that is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
