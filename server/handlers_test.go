package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestCalls checks that each handler makes the one call that its request asks for.
func TestCalls(t *testing.T) {
	f := &fake{}
	b := startServer(t, f, nil)
	other := store.NewHoldID("dinner", "ann", "r-1")
	want := map[string]call{
		"GetAvailability":      {"Availability", []any{"concert"}},
		"BatchGetAvailability": {"Availabilities", []any{[]string{"concert", "dinner", "concert"}}},
		"WatchAvailability":    {"Watch", []any{[]string{"concert"}}},
		"CreateHold":           {"CreateHold", []any{anID, "r-1", store.Line{Allotment: "concert", Quantity: 1000}}},
		"BatchCreateHolds":     {"CreateHolds", []any{"Zoë 😀", "r-1", []store.Line{{Allotment: "concert", Quantity: 1}, {Allotment: "dinner", Quantity: 2}}}},
		"GetHold":              {"Hold", []any{concertHold}},
		"ExtendHold":           {"ExtendHold", []any{concertHold}},
		"CancelHold":           {"CancelHold", []any{concertHold}},
		"ConfirmHold":          {"ConfirmHold", []any{store.ConfirmHold{ID: concertHold, OrderID: "o-1", Quantity: 1, Token: &store.Token{Epoch: 1, Sequence: 1}}}},
		"BatchConfirmHolds":    {"ConfirmHolds", []any{[]store.HoldID{concertHold, other}, "o-1"}},
		"GetSale":              {"Sale", []any{concertHold}},
		"CancelSale":           {"CancelSale", []any{store.CancelSale{ID: concertHold, RequestID: "r-2", Quantity: 1}}},
		"GetAllotment":         {"Allotment", []any{"concert"}},
		"AdjustCapacity":       {"AdjustCapacity", []any{store.AdjustCapacity{Allotment: "concert", Delta: -1000000000, RequestID: "r-3", DryRun: true}}},
		"ListHolds":            {"ListHolds", []any{store.HoldFilter{Allotment: "concert", BuyerID: "ann", States: []store.HoldState{store.Held, store.Sold}}, "", 1}},
		"ListSales":            {"ListSales", []any{store.SaleFilter{Allotment: "concert", BuyerID: "ann", OrderID: "o-1"}, "", 2}},
		"ReconcileAllotment":   {"Reconcile", []any{"concert", true}},
	}
	for method, call1 := range want {
		t.Run(method, func(t *testing.T) {
			f.taken()
			if err := b.call(t, method, validRequests()[method]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]call{call1}, f.taken(), cmp.AllowUnexported(call{})); diff != "" {
				t.Errorf("called otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBatchNamesItsLines(t *testing.T) {
	f := &fake{before: failing(&store.InvalidField{Field: "quantity", Problem: "is 11, allotment concert allows at most 10"})}
	b := startServer(t, f, nil)
	wantField(t, b.call(t, "BatchCreateHolds", validRequests()["BatchCreateHolds"]), "lines")
	wantField(t, b.call(t, "CreateHold", validRequests()["CreateHold"]), "quantity")
}
