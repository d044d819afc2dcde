package server

import (
	"testing"

	"pgregory.net/rapid"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// TestPlainRequestsKeepTheRules: what is let through as plain breaks no rule of the proto files.
func TestPlainRequestsKeepTheRules(t *testing.T) {
	v, err := newValidator()
	if err != nil {
		t.Fatal(err)
	}
	plains := 0
	id := rapid.OneOf(rapid.StringMatching(`[ -~]{0,130}`), rapid.String(), rapid.SampledFrom([]string{"", "a", " ", "~", "\x7f", "é"}))
	rapid.Check(t, func(t *rapid.T) {
		r := &pb.CreateHoldRequest{
			AllotmentId: rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{0,65}`), rapid.String()).Draw(t, "allotment"),
			BuyerId:     id.Draw(t, "buyer"), RequestId: id.Draw(t, "request"), Quantity: rapid.Int32Range(-1, 1002).Draw(t, "quantity"),
		}
		if !plain(r) {
			return
		}
		plains++
		if err := v.rules.Validate(r); err != nil {
			t.Errorf("plain, but: %v", err)
		}
	})
	if plains == 0 {
		t.Error("nothing was plain")
	}
	if plain(&pb.GetHoldRequest{HoldId: "show.x"}) {
		t.Error("a request of another kind was taken for plain")
	}
}
