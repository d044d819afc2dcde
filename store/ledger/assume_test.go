package ledger

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestAssumptionsThatDoNotHold: what a step assumed wrongly is found out by the whole step. Nothing of the first try stays,
// and it is no alarm.
func TestAssumptionsThatDoNotHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		confirm store.Confirm
		want    store.VerdictKind
	}{
		{"another epoch", order("o9", with(line(show, 9, 1), func(l *store.ConfirmLine) { l.Epoch = 2 })), stale},
		{"no room", order("o9", line(show, 9, 9)), refusedRoom},
		{"the order has bought", order("order-1", line(show, 9, 1)), refusedOrder},
		{"the hold has been sold", order("o9", line(show, 1, 1)), sold},
		{"no allotment", order("o9", unknown), stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := setupObserved(t, 10)
			o.sell(1, 2)
			results := o.together(single(2, 1), c.confirm, single(3, 1))
			for i, want := range []store.VerdictKind{sold, c.want, sold} {
				if r := results[i]; r.err != nil || r.verdicts[0].Kind != want {
					t.Errorf("confirm %d: %+v, %v; want %v", i, r.verdicts, r.err, want)
				}
			}
			o.wantSold(4)
			if got := o.violations(); len(got) != 0 || o.log.Len() != 0 {
				t.Errorf("counted %v, logged %s", got, o.log)
			}
		})
	}
}

// TestAssumedSaleIsTheWrittenOne: what is answered is what the table has, its time included.
func TestAssumedSaleIsTheWrittenOne(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	answered := f.settle(single(1, 3))[0].Sale
	written, err := f.Sale(t.Context(), answered.ID)
	if err != nil || answered != written || answered.SoldTime.IsZero() {
		t.Errorf("answered %+v, written %+v, %v", answered, written, err)
	}
}
