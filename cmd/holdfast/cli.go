package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holdfast-inventory/holdfast/cmd/holdfast/admin"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

const envPrefix = "HOLDFAST_"

// cli is the commands and their settings.
type cli struct {
	Serve      serveCommand   `cmd:"" help:"Serve checkouts and operators, on the Redis and the Postgres given."`
	Dev        devCommand     `cmd:"" help:"Serve on this machine alone, with a private Redis and Postgres: to try things out."`
	Migrate    migrateCommand `cmd:"" help:"Bring the tables in Postgres to this program's version. Safe to repeat, and to run while older servers serve."`
	EraseBuyer eraseCommand   `cmd:"" name:"erase-buyer" help:"Erase a buyer's id from the ledger. Sales keep their count; Redis forgets ended holds after the retention."`
	Admin      admin.Commands `cmd:"" help:"For operators: look into a running service, change allotments and repair them."`
	Completion scriptCommand  `cmd:"" help:"Print the script that makes a shell complete these commands."`
	Complete   wordsCommand   `cmd:"" hidden:"" help:"Print what the last of the words could be: for the scripts."`
	Version    versionCommand `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`
}

// command is what a parsed command line does.
type command interface {
	// check returns a usageError that names each setting that is wrong.
	check() error
	run(ctx context.Context, out, errOut io.Writer) error
}

// errLogged is an error that has been logged, so that it need not be printed.
var errLogged = errors.New("logged")

// usageError is a mistake of whoever called the program.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	chosen, err := parse(args, out)
	if err == nil && chosen == nil { // help or the version has been printed
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	if err == nil {
		err = chosen.check()
	}
	if err == nil {
		err = chosen.run(ctx, out, errOut)
	}
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errLogged):
		return exitError
	case errors.As(err, &usage):
		for _, problem := range usage.problems {
			fmt.Fprintln(errOut, "holdfast:", problem)
		}
		fmt.Fprintln(errOut, "holdfast: see holdfast --help, and holdfast COMMAND --help for its settings")
		return exitUsage
	default:
		fmt.Fprintln(errOut, "holdfast:", err)
		return exitError
	}
}

// printed is panicked with to leave kong, which wants to exit once it has printed help or the version.
type printed struct{}

// parse returns the command, or nil when help or the version was asked for and printed.
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
		kong.Name("holdfast"),
		kong.Description("Holds units of a limited stock for buyers, and sells them. Nothing is ever oversold.\n\n"+
			"Every setting is a flag and a variable (in brackets); the flag wins."),
		kong.Writers(out, out),
		kong.Exit(func(int) { panic(printed{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.ValueFormatter(settingHelp),
		kong.Vars{"version": versionText()},
	)
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	} else if args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		problem := err.Error()
		if len(args) > 1 && args[0] == "admin" && strings.HasPrefix(args[1], "-") {
			problem += ": settings come behind the command, as in holdfast admin list --addr HOST:PORT"
		}
		return nil, &usageError{problems: []string{problem}}
	}
	trimURLs(parsed)
	if unknown := unknownVariables(parser.Model, os.Environ()); len(unknown) > 0 {
		return nil, &usageError{problems: unknown}
	}
	switch chosen := parsed.Selected().Target.Addr().Interface().(type) {
	case command:
		return chosen, nil
	case admin.Command:
		return operatorsCommand{chosen}, nil
	default:
		return nil, fmt.Errorf("command %s does nothing", parsed.Command())
	}
}

// trimURLs takes white space off the ends of settings that are URLs: one that was read from a file ends in a line end.
func trimURLs(parsed *kong.Context) {
	for _, flag := range parsed.Flags() {
		if flag.PlaceHolder == "URL" && flag.Target.Kind() == reflect.String {
			flag.Target.SetString(strings.TrimSpace(flag.Target.String()))
		}
	}
}

// operatorsCommand is one of holdfast admin.
type operatorsCommand struct{ admin.Command }

func (c operatorsCommand) check() error { return usage(c.Problems()) }

func (c operatorsCommand) run(ctx context.Context, out, errOut io.Writer) error {
	err := c.Run(ctx, out, errOut)
	if errors.Is(err, syscall.EPIPE) {
		return nil // whoever reads what is printed, such as head, has had enough
	}
	var mistake *admin.UsageError
	if errors.As(err, &mistake) {
		return &usageError{problems: mistake.Problems}
	}
	return err
}

// settingHelp is what help says of a setting: its meaning, default and variable. A value that is set is never shown.
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
	return setting.Help + " (" + strings.Join(notes, ", ") + ")"
}

// unknownVariables names the HOLDFAST_ variables that are no setting of any command: misspelt ones would
// otherwise be ignored.
func unknownVariables(model *kong.Application, environment []string) []string {
	known := slices.Clone(testVariables())
	for _, node := range append([]*kong.Node{model.Node}, model.Leaves(false)...) {
		for _, flag := range node.Flags {
			known = append(known, flag.Envs...)
		}
	}
	var problems []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			problems = append(problems, name+": there is no such setting")
		}
	}
	slices.Sort(problems)
	return problems
}

// versionCommand prints what this program is.
type versionCommand struct{}

func (*versionCommand) check() error { return nil }

func (*versionCommand) run(_ context.Context, out, _ io.Writer) error {
	_, err := fmt.Fprintln(out, versionText())
	return err
}

func versionText() string { return fmt.Sprintf("holdfast %s (revision %s)", version, revision) }
