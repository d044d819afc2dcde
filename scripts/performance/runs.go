package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// quiet is the steal, in percent of the time of all cores, below which a run counts as undisturbed.
const quiet = 5

// measure runs an experiment until enough runs were undisturbed, or it has been tried often enough.
func (b *bench) measure(ctx context.Context, e experiment, wanted, tries int) outcome {
	r := outcome{Name: e.name, Wanted: wanted}
	for len(r.Runs) < tries && ctx.Err() == nil {
		next, err := e.once(ctx, b)
		if err != nil { // the next would not get further
			r.Error = b.brief(err.Error())
			fmt.Fprintf(b.log, "%s: FAILED: %v\n", e.name, err)
			break
		}
		next.Failure = b.brief(next.Failure)
		r.Runs = append(r.Runs, next)
		b.tell(e, len(r.Runs), next)
		if len(undisturbed(r.Runs)) == wanted {
			break
		}
	}
	r.Date = time.Now().UTC().Truncate(time.Second)
	return r
}

// tell says how a run went.
func (b *bench) tell(e experiment, n int, r run) {
	line := fmt.Sprintf("%s: run %d, steal %s", e.name, n, stealText(r))
	if r.Failure != "" {
		line += ", FAILED: " + r.Failure
	}
	fmt.Fprintln(b.log, line)
}

func stealText(r run) string {
	if r.Steal == nil {
		return "not known"
	}
	return fmt.Sprintf("%.1f %%", *r.Steal)
}

func undisturbed(runs []run) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.steal() >= quiet })
}

// counted are the runs whose figures are shown: the undisturbed ones, or, where there are not enough of them, the least
// disturbed ones, which is told.
func (r outcome) counted() (runs []run, disturbed bool) {
	if calm := undisturbed(r.Runs); len(calm) >= r.Wanted {
		return calm, false
	}
	runs = slices.Clone(r.Runs)
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.steal(), b.steal()) })
	return runs[:min(len(runs), r.Wanted)], len(runs) > 0
}
