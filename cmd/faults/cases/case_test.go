package cases

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/holdfast-inventory/holdfast/cmd/faults/guards"
	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
)

// TestAllRows: each row of the fault matrix is a case, or says why it is none.
func TestAllRows(t *testing.T) {
	t.Parallel()
	numbers, names := map[string]bool{}, map[string]bool{}
	for _, c := range All() {
		numbers[c.Number()] = true
		if names[c.Row.Case] {
			t.Errorf("%s is there twice", c.Row.Case)
		}
		names[c.Row.Case] = true
		if c.NotApplicable != "" {
			continue
		}
		if c.Title == "" || c.Deployment == "" || c.Fault == "" || c.Expected == "" || c.Inject == nil {
			t.Errorf("%s is incomplete: %+v", c.Row.Case, c)
		}
		if len(c.Proof) == 0 {
			t.Errorf("%s does not prove that its fault hit", c.Row.Case)
		}
		if (len(c.Guards) == 0) == (c.NoControl == "") {
			t.Errorf("%s has guards to take out, or says why there are none, and not both: %v, %q", c.Row.Case, c.Guards, c.NoControl)
		}
		for _, name := range c.Guards {
			if !slices.ContainsFunc(guards.All, func(g guards.Guard) bool { return g.Name == name }) {
				t.Errorf("%s: there is no guard %s", c.Row.Case, name)
			}
		}
	}
	for n := 1; n <= 42; n++ {
		if number := fmt.Sprintf("F%02d", n); !numbers[number] {
			t.Errorf("%s is missing", number)
		}
	}
}

// TestPage: docs/faults.md is what docs/faults.json says, and no case says more than was seen when it was run last.
func TestPage(t *testing.T) {
	t.Parallel()
	const file = "../../../docs/faults"
	r, err := record.Load(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range All() {
		result, there := r.Of(c.Row.Case)
		if missing := c.Unproven(result); there && result.Skipped == "" && len(missing) > 0 {
			t.Errorf("%s has changed since it was run: it must show %q; make faults args='--only %[1]s --record docs/faults.json'", c.Row.Case, missing)
		}
	}
	page, err := os.ReadFile(file + ".md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != r.Page(Rows()) {
		t.Error("docs/faults.md is not what docs/faults.json says: make faults args='--record docs/faults.json --render'")
	}
}
