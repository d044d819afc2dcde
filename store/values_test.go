package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

func TestCountersOff(t *testing.T) {
	t.Parallel()
	c := store.Counters{Capacity: 21, Available: 1, Held: 2, Confirming: 3, Shrinking: 5, Sold: 10}
	if got := c.Off(); got != 0 {
		t.Errorf("Off() = %d of numbers that add up", got)
	}
	c.Sold--
	if got := c.Off(); got != -1 {
		t.Errorf("Off() = %d with a unit missing, want -1", got)
	}
	c.Available += 5
	if got := c.Off(); got != 4 {
		t.Errorf("Off() = %d with four units too many, want 4", got)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	no := &store.Refusal{Reason: store.SoldOut, Allotment: "show"}
	wrapped := fmt.Errorf("create: %w", no)
	if got := store.Refused(wrapped, store.SoldOut); got != no {
		t.Errorf("Refused finds %v in a chain, want the refusal", got)
	}
	for name, err := range map[string]error{
		"another reason": &store.Refusal{Reason: store.AllHeld}, "trouble": store.ErrUnavailable, "nil": nil,
		"trouble that names it": errors.New("SOLD_OUT"),
	} {
		if got := store.Refused(err, store.SoldOut); got != nil {
			t.Errorf("%s: Refused finds %v", name, got)
		}
	}
}

// Trouble must never look like a refusal, nor one trouble like another.
func TestSentinelsAreApart(t *testing.T) {
	t.Parallel()
	all := []error{
		store.ErrUnavailable, store.ErrQueueFull, store.ErrRebuilding, store.ErrResultUnknown, store.ErrStale,
		store.ErrConstraint, store.ErrBadHoldID,
		&store.AdoptNeeded{Places: []store.Place{{Allotment: "show"}}}, &store.InvalidField{Field: "quantity"},
	}
	for i, a := range all {
		var no *store.Refusal
		if errors.As(a, &no) {
			t.Errorf("%v is a refusal", a)
		}
		for j, b := range all {
			if (i == j) != errors.Is(a, b) {
				t.Errorf("errors.Is(%v, %v) = %v", a, b, i != j)
			}
		}
	}
}
