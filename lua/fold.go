package lua

import (
	"fmt"
	"regexp"
	"strings"
)

// Lua 5.1 has no constants: what a script calls one is a variable, looked up at each use and captured by each
// function, at each call of each script. So the names of whole numbers, and the fields of the table S, are
// folded: replaced by their numbers when the scripts are read. Lines stay where they are.

var (
	statusTable = regexp.MustCompile(`(?s)local S = \{.*?\}`)
	status      = regexp.MustCompile(`(\w+) = (\d+)`)
	constants   = regexp.MustCompile(`(?m)^local ([A-Z_]+(?:, [A-Z_]+)*) = (\d+(?:, \d+)*)(?: *--.*)?$`)
	// A text, a comment, or a name that may be a constant's: of the status table, or of its own.
	token = regexp.MustCompile(`'[^'\n]*'|--[^\n]*|\bS\.[A-Z_]+\b|[.:]?\b[A-Z][A-Z_]*\b`)
)

// fold replaces the constants that a source declares.
func fold(source string) (string, error) {
	values := map[string]string{}
	table := statusTable.FindString(source)
	for _, m := range status.FindAllStringSubmatch(table, -1) {
		values["S."+m[1]] = m[2]
	}
	for _, m := range constants.FindAllStringSubmatch(source, -1) {
		names, numbers := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		if len(names) != len(numbers) {
			return "", fmt.Errorf("%q names %d constants, but has %d numbers", m[0], len(names), len(numbers))
		}
		for i, name := range names {
			values[name] = numbers[i]
		}
	}
	blank := func(declaration string) string { return strings.Repeat("\n", strings.Count(declaration, "\n")) }
	source = constants.ReplaceAllStringFunc(strings.Replace(source, table, blank(table), 1), blank)
	return token.ReplaceAllStringFunc(source, func(t string) string {
		if number, ok := values[t]; ok {
			return number
		}
		return t
	}), nil
}
