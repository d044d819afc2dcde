package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-inventory/holdfast/cmd/faults/cases"
	"github.com/holdfast-inventory/holdfast/cmd/faults/guards"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // a promise was broken, a fault did not hit, or a control was not missed
	exitUsage = 2
)

// settings are the command line.
type settings struct {
	Only     []string      `placeholder:"F05,..." help:"The cases to play, by number or name. Empty: all."`
	Short    bool          `help:"The short form, of two minutes: the most important cases, with faults that last for a second or two."`
	Controls bool          `help:"Play each case again with its guards taken out, too; it must fail then. Needs the sources, in the working directory."`
	Duration time.Duration `placeholder:"DURATION" help:"Draw faults at random for so long instead."`
	Without  []string      `placeholder:"GUARD,..." help:"With --duration: take these guards out (an unknown one lists them). The run must fail then, and ends as soon as it does."`
	Servers  int           `default:"3" placeholder:"N" help:"Holdfast servers (default ${default})."`
	Seed     uint64        `placeholder:"N" help:"Where the random numbers start. 0: anywhere, and it is printed."`
	Holdfast string        `placeholder:"FILE" help:"The program to break things under. Empty: built from the working directory."`
	Keep     bool          `help:"Keep the histories even if all is well."`
	Record   string        `placeholder:"FILE.json" help:"Put what was found there, and the page that shows it beside it."`
	Render   bool          `help:"Only write the page of --record anew."`
}

// Validate is called by kong when the command line has been read.
func (s *settings) Validate() error {
	switch {
	case s.Servers < 2 || s.Servers > 20:
		return fmt.Errorf("--servers must be from 2 to 20")
	case s.Duration < 0:
		return fmt.Errorf("--duration must not be below 0")
	case len(s.Without) > 0 && s.Duration == 0:
		return fmt.Errorf("--without needs --duration; for cases there is --controls")
	case s.Duration > 0 && (s.Short || s.Controls || len(s.Only) > 0):
		return fmt.Errorf("--duration draws faults at random: --only, --short and --controls are for cases")
	case s.Render && s.Record == "":
		return fmt.Errorf("--render needs --record")
	}
	if s.Render {
		if _, err := os.Stat(s.Record); err != nil {
			return fmt.Errorf("--record: there is nothing to render: %w", err)
		}
	}
	return errors.Join(knownCases(s.Only), knownGuards(s.Without))
}

// knownCases says which of the names are of no case that can be played.
func knownCases(names []string) error {
	playable := map[string]bool{}
	var all []string
	for _, c := range cases.All() {
		if c.NotApplicable == "" {
			playable[c.Row.Case], playable[c.Number()] = true, true
			all = append(all, c.Row.Case)
		}
	}
	for _, name := range names {
		if !playable[name] {
			return fmt.Errorf("--only: there is no case %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	return nil
}

func knownGuards(names []string) error {
	var all []string
	for _, g := range guards.All {
		all = append(all, g.Name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("--without: there is no guard %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	return nil
}

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var s settings
	parser, err := kong.New(&s,
		kong.Name("faults"),
		kong.Description("Breaks what Holdfast stands on while callers write down what they are told, and checks that every promise was kept.\n\n"+
			"Exit code 0: they were, and every fault hit; 1: not so; 2: usage."),
		kong.Writers(out, errOut),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
	)
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		fmt.Fprintln(errOut, "faults:", err)
		return exitUsage
	}
	if err := play(ctx, &s, out); err != nil {
		fmt.Fprintln(errOut, "faults:", err)
		return exitError
	}
	return exitOK
}
