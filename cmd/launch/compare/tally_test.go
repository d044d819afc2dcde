package compare

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// told is an answer for tests: who asked from when to when, for how much.
func told(number int, quantity int64, start, end time.Duration, got bool) answer {
	return answer{Request: number, Quantity: quantity, Start: start, End: end, Got: got}
}

func TestCount(t *testing.T) {
	t.Parallel()
	got, err := count(3, 4, []answer{
		told(2, 1, 2, 9, false), // answered when all had been asked for
		told(0, 2, 1, 3, true),
		told(3, 2, 5, 6, true),
		told(1, 1, 2, 4, false), // 2 of 3 were sold then
	})
	want := tally{Decisions: 4, Sold: 4, Oversold: 1, Refused: 2, ValidRefusals: 1, Took: 8, SoldOut: 5, P50: 2, P99: 7}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestValidRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		answers []answer
		want    int
	}{
		{"too little for this one", []answer{told(0, 2, 0, 1, true), told(1, 2, 2, 3, false)}, 0},
		{"enough for this one", []answer{told(0, 2, 0, 1, true), told(1, 1, 2, 3, false)}, 1},
		{"nothing was ever sold", []answer{told(0, 3, 0, 1, false), told(1, 2, 0, 1, false)}, 2},
		{"a sale under way may have taken it", []answer{told(0, 2, 0, 1, true), told(1, 1, 2, 9, true), told(2, 1, 2, 3, false)}, 0},
		{"a sale that was asked for afterwards has not", []answer{told(0, 2, 0, 1, true), told(1, 1, 4, 9, true), told(2, 1, 2, 3, false)}, 1},
		{"it lasted until all was gone", []answer{told(0, 2, 0, 1, true), told(1, 1, 4, 9, true), told(2, 1, 2, 5, false)}, 0},
		{"oversold", []answer{told(0, 2, 0, 1, true), told(1, 2, 0, 1, true), told(2, 1, 2, 5, false)}, 0},
	} {
		if got := validRefusals(3, test.answers); got != test.want {
			t.Errorf("%s: %d valid refusals, want %d", test.name, got, test.want)
		}
	}
}

func TestEachRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]answer{
		"none":          nil,
		"one is left":   {told(0, 1, 0, 1, true)},
		"twice":         {told(0, 1, 0, 1, true), told(0, 1, 0, 1, true)},
		"never made":    {told(0, 1, 0, 1, true), told(2, 1, 0, 1, true)},
		"before it was": {told(0, 1, 0, 1, true), told(1, 1, 2, 1, true)},
	} {
		if got, err := count(1, 2, answers); err == nil {
			t.Errorf("%s: counted as %+v", name, got)
		}
	}
}

func TestPlayAsksForEachOnce(t *testing.T) {
	t.Parallel()
	requests := demand{Seed: 1, Requests: 500}.draw()
	var stock atomic.Int64
	stock.Store(100)
	answers, err := play(t.Context(), requests, 7, newClock(), func(_ context.Context, r request) (bool, error) {
		left := stock.Add(-r.quantity)
		if left < 0 {
			stock.Add(r.quantity)
		}
		return left >= 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := count(100, len(requests), answers)
	if err != nil || got.Sold != 100-stock.Load() || got.Refused == 0 || got.Oversold != 0 {
		t.Errorf("%+v, %v, with %d left", got, err, stock.Load())
	}
}

func TestPlayEndsAtTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var asked atomic.Int64
	_, err := play(t.Context(), demand{Requests: 10_000}.draw(), 4, newClock(), func(ctx context.Context, r request) (bool, error) {
		asked.Add(1)
		if r.number == 5 {
			return false, broken
		}
		return false, ctx.Err()
	})
	if !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
	if asked.Load() == 10_000 {
		t.Error("everything was asked for")
	}
}

func TestClocksOfProcessesAgree(t *testing.T) {
	t.Parallel()
	ours := newClock()
	theirs := clockOf(ours.nanos())
	before := ours.now()
	now := theirs.now()
	const step = time.Second // that the time of day may have been corrected by meanwhile
	if after := ours.now(); now < before-step || now > after+step {
		t.Errorf("another process's clock says %v between %v and %v", now, before, after)
	}
}
