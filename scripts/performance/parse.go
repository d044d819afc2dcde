package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// procs is what Go appends to a benchmark's name: the processors that it may use.
var procs = regexp.MustCompile(`-\d+$`)

// parseBenchmarks reads what `go test -bench` prints: a name, the number of iterations, and pairs of a figure and its unit.
// Where a benchmark is there several times, its figures are the medians.
func parseBenchmarks(output string) []figure {
	var order []figure // without values
	values := map[figure][]float64{}
	for line := range strings.SplitSeq(output, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue
		}
		name := procs.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		for pair := range slices.Chunk(fields[2:], 2) {
			value, err := strconv.ParseFloat(pair[0], 64)
			if err != nil || len(pair) < 2 {
				break
			}
			key := figure{Name: name, Unit: pair[1]}
			if values[key] == nil {
				order = append(order, key)
			}
			values[key] = append(values[key], value)
		}
	}
	for i, f := range order {
		order[i].Value = median(values[f])
	}
	return order
}
