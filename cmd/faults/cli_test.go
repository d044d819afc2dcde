package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestUsage: what was typed wrong is said before anything is built or broken.
func TestUsage(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.json")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--only", "F99"}, `no case "F99"; there are F01,`},
		{[]string{"--only", "F41"}, `no case "F41"`},
		{[]string{"--duration", "1m", "--without", "hope"}, `no guard "hope"; there are need,`},
		{[]string{"--without", "need"}, "--without needs --duration"},
		{[]string{"--duration", "1m", "--only", "F01"}, "--only, --short and --controls are for cases"},
		{[]string{"--duration=-1m"}, "--duration must not be below 0"},
		{[]string{"--servers", "1"}, "--servers must be from 2 to 20"},
		{[]string{"--render"}, "--render needs --record"},
		{[]string{"--render", "--record", missing}, "nothing to render"},
		{[]string{"--such"}, "unknown flag --such"},
	} {
		var out, problems strings.Builder
		if code := run(t.Context(), test.args, &out, &problems); code != exitUsage || !strings.Contains(problems.String(), test.want) {
			t.Errorf("faults %s: exit code %d, %q; want %d and %q", strings.Join(test.args, " "), code, problems.String(), exitUsage, test.want)
		}
	}
}
