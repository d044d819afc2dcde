package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestAssumingDecidesAsReading: a step that assumes what is so of nearly all confirms comes to the same verdicts as
// one that reads first.
func TestAssumingDecidesAsReading(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 2))
			f, g := setup(t, 40), setup(t, 40, func(o *Options) { o.ReadFirst = true })
			f.create(other, 20)
			g.create(other, 20)
			for round := range 20 {
				var confirms []store.Confirm
				for range 1 + random.IntN(6) {
					confirms = append(confirms, randomConfirm(random))
				}
				got, want := kindsOf(f.together(confirms...)), kindsOf(g.together(confirms...))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("round %d (-reading +assuming):\n%s", round, diff)
				}
			}
		})
	}
}

// randomConfirm is of one hold or of a cart; some are repeats, of another order, epoch or token, or of a hold that is gone.
func randomConfirm(random *rand.Rand) store.Confirm {
	n := random.IntN(60)
	l := line(show, n, 1+int64(n%3))
	id := fmt.Sprint("order-", n)
	switch random.IntN(16) {
	case 0:
		l.Epoch = 2
	case 1:
		l.Token.Sequence += 100
	case 2:
		l.Gone = true
	case 3:
		id = fmt.Sprint("order-", random.IntN(60))
	case 4:
		l = shrink(show, fmt.Sprint("cut-", random.IntN(4)), 1)
		id = ""
	case 5, 6, 7:
		return order(id, l, line(other, n, 1))
	}
	return order(id, l)
}

func kindsOf(results []settled) (kinds []string) {
	for _, r := range results {
		text := fmt.Sprint(r.err)
		for _, v := range r.verdicts {
			text += fmt.Sprintf(" %v %v %v", v.Kind, v.Token, v.Sale.OrderID)
		}
		kinds = append(kinds, text)
	}
	return kinds
}
