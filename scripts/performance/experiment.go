package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// experiment is a section of the document.
type experiment struct {
	name     string // for --only
	title    string
	asked    string // what is done, and why
	measures []measure
	rest     func(unit string) bool                           // which other figures have a row, too; nil: none
	once     func(ctx context.Context, b *bench) (run, error) // an error: it cannot be measured at all
}

// experiments are all there are, in the order of the document.
func experiments() []experiment {
	return slices.Concat(launches(), []experiment{flushed()}, closedLoops(), []experiment{severalServers(), manyGroups(), otherWays()}, goBenchmarks())
}

// choose returns the experiments of these names; a name that none has stands for all that begin with it and a hyphen.
// Nothing named: all.
func choose(all []experiment, only string) ([]experiment, error) {
	if only == "" {
		return all, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		matching := slices.DeleteFunc(names(all), func(n string) bool { return n != name })
		if len(matching) == 0 {
			matching = slices.DeleteFunc(names(all), func(n string) bool { return !strings.HasPrefix(n, name+"-") })
		}
		if len(matching) == 0 {
			return nil, fmt.Errorf("--only: there is no %q; there are %s", name, strings.Join(names(all), ", "))
		}
		for _, n := range matching {
			wanted[n] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(e experiment) bool { return !wanted[e.name] }), nil
}

func names(all []experiment) []string {
	var list []string
	for _, e := range all {
		list = append(list, e.name)
	}
	return list
}

// row is one line of an experiment's table.
type row struct {
	measure

	values []float64 // one for each run that has it
}

// rows are the measures with what runs found, and then the other figures that are to be shown, in the order of their coming.
func (e experiment) rows(runs []run) []row {
	var all []row
	for _, m := range e.measures {
		all = append(all, row{m, nil})
	}
	for _, r := range runs {
		for _, f := range r.Figures {
			at := slices.IndexFunc(all, func(r row) bool { return r.name == f.Name && r.unit == f.Unit })
			if at < 0 && e.rest != nil && e.rest(f.Unit) {
				at = len(all)
				all = append(all, row{measure{name: f.Name, unit: f.Unit}, nil})
			}
			if at >= 0 {
				all[at].values = append(all[at].values, f.Value)
			}
		}
	}
	return all
}
