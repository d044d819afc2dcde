package holds

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

// randomRequest makes the same request of the first, the second or both of a pair of allotments, for each pair. Some
// ask for too much or for nothing, and many are repeats.
func randomRequest(random *rand.Rand, pairs [2][2]store.Place) (requests [2]store.CreateRequest) {
	buyer, request := fmt.Sprint("b", random.IntN(20)), fmt.Sprint(random.IntN(2))
	first, second, kind := random.Int64N(6)-1, 1+random.Int64N(3), random.IntN(8)
	for i, p := range pairs {
		switch kind {
		case 0:
			requests[i] = cart(buyer, request, line(p[0], first), line(p[1], second))
		case 1, 2:
			requests[i] = cart(buyer, request, line(p[1], second))
		default:
			requests[i] = cart(buyer, request, line(p[0], first))
		}
	}
	return requests
}

// What is decided of requests that come together is what is decided of the same requests one after another, and
// whatever is due and in the way is named to each, no matter what this replica believes of what is left.
func TestBatchDecidesAsOneByOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			limit := max(0, random.Int64N(6)-2)
			rules := func(r *store.Rules) { r.MaxPerBuyer, r.MaxPerHold = limit, 3 }
			capacity, other := random.Int64N(12), random.Int64N(6)
			f, g := setup(t, capacity, rules), setup(t, capacity, rules)
			pairs := [2][2]store.Place{{f.place, f.withSecond(other)}, {g.place, g.withSecond(other)}}
			for round := range 12 {
				if random.IntN(2) == 0 {
					f.spent.note(&call{facts: []facts{{gate: statusOK}, {gate: statusOK}}, places: pairs[0][:]}) // which may be wrong
				}
				compareBatch(t, random, f, g, pairs)
				if t.Failed() {
					t.Fatalf("in round %d", round)
				}
				if random.IntN(3) == 0 {
					f.advance(holdTime / 2)
					g.advance(holdTime / 2)
				}
			}
		})
	}
}

// compareBatch sends requests together with f and one by one with g.
func compareBatch(t *testing.T, random *rand.Rand, f, g *fixture, pairs [2][2]store.Place) {
	t.Helper()
	var together []store.CreateRequest
	var want, got []string
	for range 1 + random.IntN(40) {
		requests := randomRequest(random, pairs)
		together = append(together, requests[0])
		o := g.send1(requests[1])[0]
		want = append(want, fmt.Sprintf("status %d, %d due", o.reply[0].status(), len(o.due)))
	}
	for _, o := range f.send1(together...) {
		got = append(got, fmt.Sprintf("status %d, %d due", o.reply[0].status(), len(o.due)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-one by one +together:\n%s", diff)
	}
}
