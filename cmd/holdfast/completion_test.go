package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// TestComplete: what the last word could be.
func TestComplete(t *testing.T) {
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                                "serve dev migrate erase-buyer admin completion version",
		"ad":                              "admin",
		"admin ":                          "create update adjust list get holds sales reconcile watch",
		"admin re":                        "reconcile",
		"admin get --ad":                  "--addr",
		"admin adjust concert --a":        "--addr --add",
		"admin --":                        "--help --version",
		"admin update concert --state ":   "open paused closed",
		"admin --help update x --state p": "paused",
		"admin update --json x --state p": "paused",
		"admin update x --state = p":      "paused", // as bash has it
		"admin update x --state = ":       "open paused closed",
		"admin update x --state=p":        "--state=paused",
		"admin update x --nope=p":         "",
		"admin get --token-file ":         "", // a file
		"admin get ":                      "", // an allotment
		"admin get --addr serve ":         "",
		"completion ":                     "bash zsh fish",
		"completion b":                    "bash",
		"serve --log-format j":            "json",
	} {
		if diff := cmp.Diff(want, strings.Join(complete(parser.Model.Node, strings.Split(line, " ")), " ")); diff != "" {
			t.Errorf("holdfast %q -want +got:\n%s", line, diff)
		}
	}
}

// TestCompletionInShells: each shell reads its script, and bash asks the program what there is.
func TestCompletionInShells(t *testing.T) {
	forget(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	const ask = `source <(holdfast completion bash)
COMP_WORDS=(holdfast admin update x --state "$1" "$2"); COMP_CWORD=$(($# + 4)); _holdfast; echo "${COMPREPLY[*]}"`
	for shell, scripts := range map[string]map[string][]string{
		"bash": {"paused": {ask, "bash", "p"}, "open paused closed": {ask, "bash", "="}, "closed": {ask, "bash", "=", "c"}},
		"zsh":  {"read": {`compdef() { echo read; }; source <(holdfast completion zsh)`}},
		"fish": {"read": {`holdfast completion fish | source; functions -q __holdfast_complete; and echo read`}},
	} {
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("not tried in %s: it is not here", shell)
			continue
		}
		for want, script := range scripts {
			command := exec.CommandContext(t.Context(), program, append([]string{"-c"}, script...)...)
			command.Env = append(os.Environ(), asHoldfast+"=1", "PATH="+dir+":"+os.Getenv("PATH"))
			output, err := command.CombinedOutput()
			if got := strings.TrimSpace(string(output)); err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("%s: %v, %q, want %q", shell, err, got, want)
			}
		}
	}
}
