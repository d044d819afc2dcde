package record

import (
	"strings"
	"testing"
	"time"
)

// TestControlsStay: a case played again without its control keeps what the control showed, and one played with it does not.
func TestControlsStay(t *testing.T) {
	then := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	r := &Record{}
	r.Put(Result{Case: "F01", Seed: 1, Control: &Control{Date: then, Guards: []string{"pin"}, Failure: "R3"}})
	r.Put(Result{Case: "F01", Seed: 2})
	got, _ := r.Of("F01")
	if got.Seed != 2 || got.Control == nil || !got.Control.Date.Equal(then) {
		t.Errorf("after a run without a control: %+v", got)
	}
	if text := got.Control.text(); !strings.Contains(text, "fails") || !strings.Contains(text, "2026-07-01") {
		t.Errorf("the page says %q", text)
	}
	r.Put(Result{Case: "F01", Seed: 3, Control: &Control{Date: then.AddDate(0, 0, 1), Guards: []string{"pin"}}})
	if got, _ = r.Of("F01"); !strings.Contains(got.Control.text(), "not missed") {
		t.Errorf("after a control that found nothing the page says %q", got.Control.text())
	}
}
