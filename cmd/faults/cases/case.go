package cases

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

const never = time.Duration(math.MaxInt64)

// Case is a row of the matrix.
type Case struct {
	record.Row

	// Guards are taken out in the control, all together: some protections stand behind others.
	Guards []string
	// Short: the case is part of the short form.
	Short bool
	// Random: the fault may be drawn in the random mode, unless it is Alone.
	Random bool
	// Alone: the fault is one of a Redis alone, its files and the links to it.
	Alone bool
	// Proof names hits of which there must be some.
	Proof []string
	// Prepare makes the world another one than usual. Nil: the case may share one.
	Prepare func(*world.Settings)
	// Load is the callers'; zero values: the usual ones.
	Load Load
	// Upgrades: a program with another version of the scripts is needed.
	Upgrades bool
	// Needs says what is missing on this machine; nothing: all is there. Nil: nothing is needed.
	Needs func() string
	// Before sets the stage, before callers call. Nil: there is nothing to set.
	Before func(ctx context.Context, s *Scene) error
	// Inject breaks something and mends it again, while callers call.
	Inject func(ctx context.Context, s *Scene) error
	// Check looks at what callers were told, when all is over. Nil: what every case looks for is enough.
	Check func(s *Scene, h *history.History)
	// Forgive names breaches that the fault is bound to bring, by a part of their text. They are counted as hits.
	Forgive []string
}

// Load is what callers ask for. The short form, which has to share a machine, asks for no more than usual.
type Load struct {
	Rate     int           // requests a second
	Capacity int64         // units
	Window   time.Duration // of a hold
}

const usualRate = 200

func (l Load) filled(long bool) Load {
	if l.Rate == 0 {
		l.Rate = usualRate
	}
	if !long && l.Rate > usualRate {
		l.Capacity = l.Capacity * usualRate / int64(l.Rate)
		l.Rate = usualRate
	}
	if l.Window == 0 {
		l.Window = 2 * time.Second
	}
	if l.Capacity == 0 {
		l.Capacity = int64(3 * l.Rate)
	}
	return l
}

// Number is the row of the matrix that the case belongs to, such as F09.
func (c Case) Number() string {
	number, _, _ := strings.Cut(c.Row.Case, "-")
	return number
}

// All are the cases, in the order of the matrix.
func All() []Case {
	var all []Case
	for _, group := range [][]Case{servers(), redis(), sentinel(), cluster(), links(), redisSettings(), postgres(), callers()} {
		all = append(all, group...)
	}
	slices.SortStableFunc(all, func(a, b Case) int { return cmp.Compare(a.Number(), b.Number()) })
	return all
}

// Rows are what the page says of them.
func Rows() []record.Row {
	var rows []record.Row
	for _, c := range All() {
		rows = append(rows, c.Row)
	}
	return rows
}

// Unproven says which signs of the fault are missing: without them the case proves nothing.
func (c Case) Unproven(r record.Result) []string {
	seen := map[string]int{"trouble": r.Calls.Trouble, "unanswered": r.Calls.Unknown, "lost": int(r.Calls.Lost)}
	for _, h := range r.Hits {
		seen[h.What] += h.Count
	}
	var missing []string
	for _, sign := range c.Proof {
		if seen[sign] == 0 {
			missing = append(missing, sign)
		}
	}
	return missing
}
