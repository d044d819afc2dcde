package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

// grow makes the next change of an allotment's feed.
func (f *fixture) grow(id, request string) store.Adjustment {
	f.t.Helper()
	_, made, err := f.Grow(f.t.Context(), store.Adjustment{Allotment: id, RequestID: request, Delta: 1})
	if err != nil {
		f.t.Fatal(err)
	}
	return made
}

func numbers(changes []store.Change) []int64 {
	all := make([]int64, len(changes))
	for i, c := range changes {
		all[i] = c.Number
	}
	return all
}

func TestChanges(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.create(other, 10)
	for i := range 5 {
		f.grow(show, fmt.Sprint(i))
	}
	f.grow(other, "r")
	for _, c := range []struct {
		after int64
		limit int
		want  []int64
	}{
		{0, 100, []int64{1, 2, 3, 4, 5}},
		{0, 2, []int64{1, 2}},
		{2, 2, []int64{3, 4}},
		{4, 2, []int64{5}},
		{5, 2, []int64{}},
	} {
		got, err := f.Changes(t.Context(), show, c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, numbers(got)); diff != "" {
			t.Errorf("after %d, at most %d (-want +got):\n%s", c.after, c.limit, diff)
		}
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	for _, id := range []string{"c", "a", "d", "b"} {
		f.create(id, 10)
		f.grow(id, "r1")
		f.grow(id, "r2")
	}
	if err := f.Applied(t.Context(), "b", 1, 2); err != nil {
		t.Fatal(err)
	}
	if err := f.Applied(t.Context(), "c", 1, 1); err != nil {
		t.Fatal(err)
	}
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := f.Pending(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, page...); len(page) < 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"a", "c", "d"}, got); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestApplied(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	for i := range 4 {
		f.grow(show, fmt.Sprint(i))
	}
	for i, c := range []struct {
		epoch, number int64
		err           error
		left          []int64
	}{
		{0, 2, store.ErrStale, []int64{1, 2, 3, 4}},
		{2, 2, store.ErrStale, []int64{1, 2, 3, 4}},
		{1, 5, store.ErrStale, []int64{1, 2, 3, 4}}, // a number that the ledger does not know
		{1, 2, nil, []int64{3, 4}},
		{1, 2, nil, []int64{3, 4}},
		{1, 0, nil, []int64{3, 4}},
		{1, 4, nil, []int64{}},
		{1, 4, nil, []int64{}},
	} {
		err := f.Applied(t.Context(), show, c.epoch, c.number)
		if !errors.Is(err, c.err) {
			t.Errorf("step %d: %v, want %v", i, err, c.err)
		}
		if diff := cmp.Diff(c.left, numbers(f.changes(show))); diff != "" {
			t.Errorf("step %d: left (-want +got):\n%s", i, diff)
		}
	}
	if made := f.grow(show, "next"); made.Feed != 5 {
		t.Errorf("the next number is %d, want 5: they are never used again", made.Feed)
	}
}
