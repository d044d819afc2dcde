package compare

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/docs/model"
)

// TestTheDefaultDemandIsTheReferenceWorkload: the figures can be compared with those of docs/model.
func TestTheDefaultDemandIsTheReferenceWorkload(t *testing.T) {
	t.Parallel()
	var got []int64
	for i, r := range (demand{Seed: 20260730, Requests: model.Requests}).draw() {
		if r.number != i {
			t.Fatalf("request %d has number %d", i, r.number)
		}
		got = append(got, r.quantity)
	}
	if diff := cmp.Diff(model.Quantities(), got); diff != "" {
		t.Errorf("quantities (-want +got):\n%s", diff)
	}
}

func TestSharesAreAllOfIt(t *testing.T) {
	t.Parallel()
	all := demand{Seed: 1, Requests: 103}.draw()
	taken := make(map[request]int)
	for n := range replicaCount {
		for _, r := range share(all, n, replicaCount) {
			taken[r]++
		}
	}
	for _, r := range all {
		if taken[r] != 1 {
			t.Errorf("request %d is in %d shares", r.number, taken[r])
		}
	}
}
