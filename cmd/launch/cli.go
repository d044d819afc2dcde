package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-inventory/holdfast/cmd/launch/compare"
	"github.com/holdfast-inventory/holdfast/cmd/launch/window"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // a promise was broken, or it could not be found out
	exitUsage = 2
)

// cli is the commands. With flags alone, it is onsale; without anything, help.
type cli struct {
	Onsale      onsaleCommand      `cmd:"" default:"withargs" help:"The launch: 200,000 requests in 10 s for 5,000 items. With flags and no name of a command, this one is meant."`
	Steady      steadyCommand      `cmd:"" help:"Day by day: a steady rate, and enough for everybody."`
	SecondRound secondRoundCommand `cmd:"" name:"second-round" help:"What lapses is taken by the buyers who come next."`
	Closed      closedCommand      `cmd:"" help:"The highest rate: so many callers, each asks again as soon as it is answered, beside a server that decides nothing. Of several servers the first also answers alone."`
	Compare     compare.Command    `cmd:"" help:"The same demand by what people would use instead, beside Holdfast."`
	Window      window.Command     `cmd:"" help:"How long a hold should last: the sizing table of a launch."`
	NoopServer  noopCommand        `cmd:"" name:"noop-server" hidden:"" help:"Be the server that decides nothing, until standard input ends."`
}

// command is what a parsed command line does.
type command interface {
	Run(ctx context.Context, out, errOut io.Writer) error
}

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	out, errOut = &outlet{to: out, gone: gone}, &outlet{to: errOut, gone: gone}
	chosen, err := parse(args, out)
	var usage *kong.ParseError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(errOut, "launch:", err)
		fmt.Fprintln(errOut, "launch: see launch --help, and launch COMMAND --help for its settings")
		return exitUsage
	case err == nil && chosen != nil:
		err = chosen.Run(ctx, out, errOut)
	}
	if err != nil {
		fmt.Fprintln(errOut, "launch:", err)
		return exitError
	}
	return exitOK
}

// printed is panicked with to leave kong, which wants to exit once it has printed help.
type printed struct{}

// parse returns the command, or nil when help was asked for and printed.
func parse(args []string, out io.Writer) (chosen command, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(printed); !ok {
				panic(r)
			}
			chosen, err = nil, nil
		}
	}()
	var commands cli
	parser, err := kong.New(&commands,
		kong.Name("launch"),
		kong.Description("Rehearses a launch: makes the load, shows it, and checks afterwards, over everything that callers were told, "+
			"that the promises R1 to R6 were kept. Whether buyers were served as R7 says, is told beside it: it depends on the machine.\n\n"+
			"Exit code 0: R1 to R6 were kept; 1: one was broken, or that could not be found out; 2: usage."),
		kong.Writers(out, out),
		kong.Exit(func(int) { panic(printed{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.ValueFormatter(settingHelp),
	)
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	switch {
	case len(args) == 0: // a launch is too much to begin by accident
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(withNumbers(args))
	if err != nil {
		return nil, err
	}
	chosen, ok := parsed.Selected().Target.Addr().Interface().(command)
	if !ok {
		return nil, fmt.Errorf("command %s does nothing", parsed.Command())
	}
	return chosen, nil
}

// withNumbers writes "--requests -5" as "--requests=-5". Kong would take -5 for a flag, and not have it checked.
func withNumbers(args []string) []string {
	var all []string
	for i, arg := range args {
		isNumber := len(arg) > 1 && arg[0] == '-' && (arg[1] == '.' || '0' <= arg[1] && arg[1] <= '9')
		if i > 0 && isNumber && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=") {
			all[len(all)-1] += "=" + arg
			continue
		}
		all = append(all, arg)
	}
	return all
}

// settingHelp is what help says of a setting: its meaning, default and variable. A variable's value is never shown.
func settingHelp(setting *kong.Value) string {
	var notes []string
	if setting.HasDefault && setting.Default != "" {
		notes = append(notes, "default "+setting.Default)
	}
	for _, variable := range setting.Tag.Envs {
		notes = append(notes, "$"+variable)
	}
	if len(notes) == 0 {
		return setting.Help
	}
	return strings.TrimSuffix(setting.Help, ".") + " (" + strings.Join(notes, ", ") + ")."
}
