// Package admin is the operators' commands: a thin client of AdminService, with tables for people and JSON for scripts.
package admin

import (
	"context"
	"io"
	"strings"
)

// Commands are the commands behind holdfast admin.
type Commands struct {
	Create    createCommand    `cmd:"" help:"Open an allotment for sale."`
	Update    updateCommand    `cmd:"" help:"Change an allotment's rules or state: pause it, open it, close it."`
	Adjust    adjustCommand    `cmd:"" help:"Add units to an allotment's capacity, or take units away."`
	List      listCommand      `cmd:"" help:"All allotments, with their rules."`
	Get       getCommand       `cmd:"" help:"One allotment, with its rules."`
	Holds     holdsCommand     `cmd:"" help:"Holds of an allotment that are remembered, ended ones included."`
	Sales     salesCommand     `cmd:"" help:"Sales, cancelled ones included."`
	Reconcile reconcileCommand `cmd:"" help:"Compare an allotment's state in Redis with the ledger. Changes nothing without --apply."`
	Watch     watchCommand     `cmd:"" help:"A live view of allotments, until it is interrupted."`
}

// Command is what a parsed command line does.
type Command interface {
	// Problems says what is wrong with the command line, each by its flag or argument.
	Problems() []string
	// Run calls the server, and writes what it answered to out. It returns a *UsageError for what the server finds
	// wrong with what was typed.
	Run(ctx context.Context, out, errOut io.Writer) error
}

// UsageError is a mistake of whoever typed the command.
type UsageError struct{ Problems []string }

func (e *UsageError) Error() string { return strings.Join(e.Problems, "\n") }
