package compare

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// parse reads a command line as launch does.
func parse(t *testing.T, args ...string) (*Command, error) {
	t.Helper()
	var commands struct {
		Compare Command `cmd:""`
	}
	parser, err := kong.New(&commands, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"compare"}, args...))
	return &commands.Compare, err
}

// TestNoSecretIsShown: a URL may hold a password.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--postgres-url=redis://secret@there": "--postgres-url",
		"--redis-url=secret":                  "--redis-url",
	} {
		_, err := parse(t, args)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v does not name %s", args, err, want)
		}
	}
	if _, err := parse(t); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// TestHelpNamesAllWays: they are listed by hand.
func TestHelpNamesAllWays(t *testing.T) {
	t.Parallel()
	var names []string
	for _, w := range ways() {
		names = append(names, w.name)
	}
	var c struct {
		Compare Command `cmd:""`
	}
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range parser.Model.Leaves(false)[0].Flags {
		if flag.Name == "ways" && !strings.Contains(flag.Help, ": "+strings.Join(names, ", ")+".") {
			t.Errorf("%q does not list %s", flag.Help, names)
		}
	}
}
