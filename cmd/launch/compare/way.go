package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// way is a way of selling a limited stock.
type way struct {
	name  string // for --ways and the JSON
	title string // for the table
	uses  []string
	// The promises that the way makes. A run that breaks one fails.
	neverOversells, refusesNobodyWrongly bool

	open opening
}

type opening func(ctx context.Context, e *env) (shop, error)

// Servers whose CPU is counted. A Holdfast server is the shop's own.
const (
	usesPostgres = "postgres"
	usesRedis    = "redis"
	usesHoldfast = "holdfast"
)

// env is what a shop is opened with.
type env struct {
	settings *Command
	stores   *stores
	clock    clock
}

// shop sells by one way. It is used by one run at a time.
type shop interface {
	// restock puts out a new stock; nothing of an earlier one is sold any more.
	restock(ctx context.Context, capacity int64) error
	// ask puts the demand to it. It returns an answer to every request, or an error.
	ask(ctx context.Context, d demand) ([]answer, error)
	// audit compares the shop's books with what buyers were told, and may have something to say of them.
	audit(ctx context.Context, t tally) (note string, err error)
	close() error
}

const baseline = "for-update" // what rates are compared with

// ways are all there are, in the order of the table.
func ways() []way {
	postgres := []string{usesPostgres}
	exact := func(d rowDecide) opening { return openRows(rowWay{decide: d, correct: true}) }
	return []way{
		{name: "unprotected", title: "read, check, write", uses: postgres, open: openRows(rowWay{decide: readCheckWrite})},
		{name: "mutex", title: "the same, a mutex in each of 4 processes", uses: postgres, open: openReplicas},
		{name: "optimistic", title: "optimistic: version column, 3 tries", uses: postgres, neverOversells: true, open: exact(compareVersion)},
		{name: baseline, title: "SELECT ... FOR UPDATE", uses: postgres, neverOversells: true, open: exact(lockRow)},
		{name: "conditional", title: "one conditional UPDATE", uses: postgres, neverOversells: true, open: exact(updateIf)},
		{name: "with-sale", title: "conditional UPDATE and INSERT of the sale", uses: postgres, neverOversells: true, open: openRows(rowWay{decide: updateAndInsert, correct: true, insert: true})},
		{name: "redis", title: "one EVALSHA per request", uses: []string{usesRedis}, neverOversells: true, open: openScript},
		{
			name: usesHoldfast, title: "Holdfast, through gRPC", uses: []string{usesPostgres, usesRedis, usesHoldfast},
			neverOversells: true, refusesNobodyWrongly: true, open: openHoldfast,
		},
	}
}

// choose returns the ways of these names, in the order of the table; no names: all.
func choose(names []string) ([]way, error) {
	all := ways()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, w := range all {
		known = append(known, w.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--ways: there is no %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(w way) bool { return !slices.Contains(names, w.name) }), nil
}
