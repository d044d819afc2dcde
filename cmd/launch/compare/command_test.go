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

func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--capacity=0":                           "--capacity",
		"--requests=1000001":                     "--requests",
		"--workers=0":                            "--workers",
		"--conns=181":                            "--conns",
		"--ways=mutex,magic":                     `"magic"`,
		"--addr=nowhere":                         "--addr",
		"--addr=127.0.0.1:1 --holdfast=holdfast": "--holdfast",
		"--postgres-url=redis://secret@there":    "--postgres-url",
		"--redis-url=secret":                     "--redis-url",
	} {
		_, err := parse(t, strings.Fields(args)...)
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
