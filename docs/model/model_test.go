package model_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/docs/model"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// TestPublishedFigures holds the model to its published figures. Those of the refusals, and of two and four workers all but
// the conflicts, were not published; they are what the same runs gave.
func TestPublishedFigures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		regime   model.Regime
		workers  int
		want     model.Result
		oversold int64
	}{
		{model.Unprotected, model.Workers, model.Result{Sold: 27_963, Left: 1_798, Steps: 40_047}, 22_963},
		{model.Optimistic, model.Workers, model.Result{
			Sold: 5_000, Refusals: 16_397, ValidRefusals: 2_409, Conflicts: 10_038, Steps: 55_267,
		}, 0},
		{model.Pessimistic, model.Workers, model.Result{
			Sold: 5_000, Refusals: 16_427, Waits: 304_276, Steps: 344_446,
		}, 0},
		{model.Optimistic, 2, model.Result{
			Sold: 5_000, Refusals: 16_420, ValidRefusals: 130, Conflicts: 1_519, Steps: 42_783,
		}, 0},
		{model.Optimistic, 4, model.Result{
			Sold: 5_000, Refusals: 16_426, ValidRefusals: 520, Conflicts: 3_577, Steps: 46_117,
		}, 0},
	} {
		t.Run(fmt.Sprintf("%s with %d workers", test.regime, test.workers), func(t *testing.T) {
			t.Parallel()
			got := model.Run(test.regime, test.workers)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if got.Oversold() != test.oversold {
				t.Errorf("oversold by %d, want %d", got.Oversold(), test.oversold)
			}
		})
	}
}

// TestOneWorkerNeedsNoProtection: with nobody in between, all regimes are the same, and right.
func TestOneWorkerNeedsNoProtection(t *testing.T) {
	t.Parallel()
	want := model.Run(model.Unprotected, 1)
	if want.Sold != model.Capacity || want.Left != 0 || want.ValidRefusals != 0 || want.Steps != 2*model.Requests {
		t.Errorf("unprotected: %+v", want)
	}
	for _, regime := range []model.Regime{model.Optimistic, model.Pessimistic} {
		if diff := cmp.Diff(want, model.Run(regime, 1)); diff != "" {
			t.Errorf("%s (-unprotected +got):\n%s", regime, diff)
		}
	}
}

func TestQuantities(t *testing.T) {
	t.Parallel()
	quantities := model.Quantities()
	if want := []int64{1, 2, 2, 2, 1, 1, 1, 2, 1, 1}; !cmp.Equal(quantities[:10], want) {
		t.Errorf("they begin with %d, want %d", quantities[:10], want)
	}
	count := make(map[int64]int)
	for _, q := range quantities {
		count[q]++
	}
	if want := map[int64]int{1: 12_037, 2: 7_963}; !cmp.Equal(count, want) {
		t.Errorf("so many of each: %v, want %v", count, want)
	}
}
