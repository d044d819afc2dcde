package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestWhatWasChanged: migrate and erase-buyer say what they changed, and when it was nothing.
func TestWhatWasChanged(t *testing.T) {
	forget(t)
	url := storetest.NewPostgres(t, local.PostgresOptions{}).URL("postgres")
	says := func(command, want string) {
		t.Helper()
		var out bytes.Buffer
		code := run(t.Context(), append(strings.Fields(command), "--postgres-url="+url), &out, &out)
		if code != exitOK || !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, printed %q, want %q", command, code, &out, want)
		}
	}
	says("migrate", "migrated from version 0 to ")
	says("migrate", "the tables are up to date (version ")
	says("erase-buyer ann", "nothing to erase: the ledger has no row of this buyer; ")
	sellOne(t, url, "ann")
	says("erase-buyer ann", "erased from 1 rows of the ledger; ")
	says("erase-buyer ann", "nothing to erase: ")
}

// sellOne makes a sale in the ledger alone.
func sellOne(t *testing.T, url, buyer string) {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = l.CreateAllotment(t.Context(), store.Allotment{
		Place: store.Place{Allotment: "show", Group: "show", Buckets: 16}, Capacity: 1,
		Rules: store.Rules{
			State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
			MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: 1,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.RaiseEpoch(t.Context(), "show", 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	verdicts, err := l.Settle(t.Context(), "show", store.Confirm{OrderID: "o", Lines: []store.ConfirmLine{{
		ID: store.NewHoldID("show", buyer, "r"), BuyerID: buyer, RequestID: "r", Quantity: 1, Held: 1,
		Token: store.Token{Epoch: 1, Sequence: 1}, Epoch: 1, CreateTime: time.Now(),
	}}})
	if err != nil || verdicts[0].Kind != store.VerdictSold {
		t.Fatalf("sale: %v, %v", verdicts, err)
	}
}
