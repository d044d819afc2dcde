package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/store"
)

var (
	aHold = store.NewHoldID("concert", "ann", "r-1").String()
	bHold = store.NewHoldID("dinner", "ann", "r-1").String()
	anID  = strings.Repeat("x", 128)
	long  = anID + "x"
	many  = slices.Repeat([]any{"concert"}, 101)
)

// object and list are JSON to be.
type (
	object = map[string]any
	list   = []any
)

// validRequests has a valid request for every method.
func validRequests() map[string]object {
	return map[string]object{
		"GetAvailability":      {"allotment_id": "concert"},
		"BatchGetAvailability": {"allotment_ids": list{"concert", "dinner", "concert"}},
		"WatchAvailability":    {"allotment_ids": list{"concert"}},
		"CreateHold":           {"allotment_id": "concert", "buyer_id": anID, "request_id": "r-1", "quantity": 1000},
		"BatchCreateHolds": {
			"buyer_id": "Zoë 😀", "request_id": "r-1",
			"lines": list{object{"allotment_id": "concert", "quantity": 1}, object{"allotment_id": "dinner", "quantity": 2}},
		},
		"GetHold":    {"hold_id": aHold},
		"ExtendHold": {"hold_id": aHold},
		"ConfirmHold": {
			"hold_id": aHold, "order_id": "o-1", "quantity": 1, "fencing_token": object{"epoch": 1, "sequence": 1},
		},
		"BatchConfirmHolds": {"hold_ids": list{aHold, bHold}, "order_id": "o-1"},
		"CancelHold":        {"hold_id": aHold},
		"GetSale":           {"hold_id": aHold},
		"CancelSale":        {"hold_id": aHold, "request_id": "r-2", "quantity": 1},
		"CreateAllotment": {"allotment": object{
			"id": "concert", "group": "night", "capacity": "1000000000", "hold_duration": "86400s",
			"max_hold_duration": "604800s", "max_quantity_per_hold": 1000, "max_quantity_per_buyer": 1000000000,
			"opens_at": "2026-07-30T12:00:00Z", "closes_at": "2026-07-31T12:00:00Z", "state": "ALLOTMENT_STATE_PAUSED",
			"late_confirm": "LATE_CONFIRM_REJECT",
		}},
		"GetAllotment":   {"allotment_id": "concert"},
		"ListAllotments": {"page_size": 1000, "page_token": formatPage(allotmentsKind, "concert")},
		"UpdateAllotment": {
			"allotment": object{
				"id": "concert", "etag": formatEtag(7), "state": "ALLOTMENT_STATE_CLOSED", "hold_duration": "1s",
				"max_hold_duration": "1s", "max_quantity_per_hold": 1, "max_quantity_per_buyer": 1,
				"opens_at": "2026-07-30T12:00:00Z", "closes_at": "2026-07-31T12:00:00Z", "late_confirm": "LATE_CONFIRM_REJECT",
			},
			"update_mask": strings.Join(camelCased(changeable()), ","),
		},
		"AdjustCapacity": {"allotment_id": "concert", "delta": "-1000000000", "request_id": "r-3", "dry_run": true},
		"ListHolds": {
			"allotment_id": "concert", "buyer_id": "ann", "states": list{"HOLD_STATE_HELD", "HOLD_STATE_SOLD"},
			"page_size": 1, "page_token": "",
		},
		"ListSales": {
			"allotment_id": "concert", "buyer_id": "ann", "order_id": "o-1", "page_size": 1, "page_token": "",
		},
		"ReconcileAllotment": {"allotment_id": "concert", "apply": true},
	}
}

// badInput is a valid request with one thing wrong: the value at path, nil for none.
type badInput struct {
	methods string // separated by spaces
	path    string
	value   any
	field   string // that must be named
}

func badInputs() []badInput {
	var all []badInput
	add := func(methods, path, field string, values ...any) {
		for _, value := range values {
			all = append(all, badInput{methods: methods, path: path, value: value, field: field})
		}
	}
	allotmentIDs := list{nil, "", "-concert", "Concert", "con cert", "con_cert", "zoë", strings.Repeat("a", 64), "a\n", "a.b"}
	callerIDs := list{nil, "", long, "a\nb", "a\x00", "a\u200bb", "a\u2028b", "tab\t"}
	holdIDs := append(list{"concert", "concert.short", "Concert." + aHold[8:], aHold + "x", aHold[:len(aHold)-1] + "!"}, callerIDs...)
	quantities := list{nil, 0, -1, 1001, 2147483647, -2147483648}

	add("GetAvailability CreateHold GetAllotment AdjustCapacity ListHolds ReconcileAllotment",
		"allotment_id", "allotment_id", allotmentIDs...)
	add("BatchGetAvailability WatchAvailability", "allotment_ids", "allotment_ids", nil, list{}, many)
	add("BatchGetAvailability WatchAvailability", "allotment_ids", "allotment_ids[1]", list{"concert", "Dinner"}, list{"a", ""})
	add("CreateHold BatchCreateHolds", "buyer_id", "buyer_id", callerIDs...)
	add("CreateHold BatchCreateHolds CancelSale AdjustCapacity", "request_id", "request_id", callerIDs...)
	add("ConfirmHold BatchConfirmHolds", "order_id", "order_id", callerIDs...)
	add("CreateHold", "quantity", "quantity", quantities...)
	add("GetHold ExtendHold ConfirmHold CancelHold GetSale CancelSale", "hold_id", "hold_id", holdIDs...)
	add("ConfirmHold CancelSale", "quantity", "quantity", quantities[1:]...) // unset: all of it

	line := func(id string, quantity int) object { return object{"allotment_id": id, "quantity": quantity} }
	add("BatchCreateHolds", "lines", "lines", nil, list{}, slices.Repeat(list{line("concert", 1)}, 101))
	add("BatchCreateHolds", "lines", "lines[1].allotment_id", list{line("a", 1), line("", 1)}, list{line("a", 1), line("B", 1)})
	add("BatchCreateHolds", "lines", "lines[0].quantity", list{line("a", 0)}, list{line("a", -1)}, list{line("a", 1001)})
	add("BatchConfirmHolds", "hold_ids", "hold_ids", nil, list{}, slices.Repeat(list{aHold}, 101), list{aHold, aHold})
	add("BatchConfirmHolds", "hold_ids", "hold_ids[1]", list{aHold, "concert.x"}, list{aHold, ""}, list{aHold, long})
	add("ConfirmHold", "fencing_token.epoch", "fencing_token.epoch", nil, 0, -1)
	add("ConfirmHold", "fencing_token.sequence", "fencing_token.sequence", nil, 0, -1)

	add("CreateAllotment UpdateAllotment", "allotment", "allotment", nil)
	add("CreateAllotment UpdateAllotment", "allotment.id", "allotment.id", allotmentIDs...)
	add("CreateAllotment", "allotment.group", "allotment.group", allotmentIDs[2:]...)
	add("CreateAllotment", "allotment.capacity", "allotment.capacity", -1, 1000000001, "9223372036854775807")
	both := "CreateAllotment UpdateAllotment"
	add(both, "allotment.hold_duration", "allotment.hold_duration", "0s", "0.999s", "-1s", "86401s")
	add(both, "allotment.max_hold_duration", "allotment.max_hold_duration", "0s", "0.999s", "-1s", "604801s")
	add("CreateAllotment", "allotment.max_hold_duration", "allotment.max_hold_duration", "86399s")
	add("UpdateAllotment", "allotment.hold_duration", "allotment.max_hold_duration", "2s")
	add(both, "allotment.max_quantity_per_hold", "allotment.max_quantity_per_hold", -1, 1001)
	add(both, "allotment.max_quantity_per_buyer", "allotment.max_quantity_per_buyer", 0, -1, 1000000001)
	add(both, "allotment.opens_at", "allotment.opens_at", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z")
	add(both, "allotment.closes_at", "allotment.closes_at", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z",
		"1970-01-01T00:00:00.000999999Z", "2026-07-30T12:00:00Z")
	add(both, "allotment.state", "allotment.state", 4, -1)
	add(both, "allotment.late_confirm", "allotment.late_confirm", 3, -1)
	add("UpdateAllotment", "allotment.state", "allotment.state", nil, 0)
	add("UpdateAllotment", "allotment.etag", "allotment.etag", nil, "", "7", strings.Repeat("A", 129), formatPage(holdsKind, "x"))
	add("UpdateAllotment", "update_mask", "update_mask", nil, "", "capacity", "id", "etag", "group", "state,capacity",
		"holdDuration.seconds", "nothing", "createTime")
	add("AdjustCapacity", "delta", "delta", nil, 0, -1000000001, 1000000001)

	paged := "ListAllotments ListHolds ListSales"
	add(paged, "page_size", "page_size", -1, 1001)
	add(paged, "page_token", "page_token", "x", "!", strings.Repeat("A", 1025), formatEtag(7), formatPage('x', "y"))
	for _, forged := range []string{"\xff", "concert\x00", "\xed\xa0\x80", "Concert", "concert.x", aHold + "x", aHold[:8] + "\x00" + aHold[9:]} {
		add("ListAllotments", "page_token", "page_token", formatPage(allotmentsKind, forged))
		add("ListSales", "page_token", "page_token", formatPage(salesKind, forged, "concert", "ann", "o-1"))
	}
	add("ListAllotments", "page_token", "page_token", formatPage(allotmentsKind, "concert")+"\n")
	add("ListHolds", "page_token", "page_token", formatPage(holdsKind, "cursor", "concert", "", "[]"))
	add("ListSales", "page_token", "page_token", formatPage(salesKind, aHold, "concert", "ann", ""))
	add("ListHolds ListSales", "buyer_id", "buyer_id", callerIDs[2:]...) // unset: every buyer
	add("ListSales", "order_id", "order_id", callerIDs[2:]...)
	add("ListSales", "allotment_id", "allotment_id", allotmentIDs[2:]...)
	add("ListHolds", "states", "states[0]", list{0}, list{6}, list{-1})
	add("ListHolds", "states", "states", list{1, 1})
	return all
}

func TestBadInput(t *testing.T) {
	f := &fake{row: store.Allotment{Rules: store.Rules{HoldDuration: 1, MaxHoldDuration: 1}}}
	b := startServer(t, f, nil)
	covered := map[string]bool{}
	for _, bad := range badInputs() {
		for method := range strings.FieldsSeq(bad.methods) {
			covered[method+" "+bad.path] = true
			text, _ := json.Marshal(bad.value)
			t.Run(fmt.Sprintf("%s/%s=%.40s", method, bad.path, text), func(t *testing.T) {
				err := b.call(t, method, changed(validRequests()[method], bad.path, bad.value))
				wantField(t, err, bad.field)
				if calls := f.taken(); len(calls) > 0 && method != "UpdateAllotment" {
					t.Errorf("reached the use cases: %v", calls)
				}
			})
		}
	}
	for method, request := range validRequests() {
		t.Run("valid "+method, func(t *testing.T) {
			if err := b.call(t, method, request); err != nil {
				t.Errorf("valid request: %v", err)
			}
		})
		for _, path := range paths(methodNamed(t, method).Input(), "") {
			if !covered[method+" "+path] && !slices.Contains([]string{"dry_run", "apply"}, path) &&
				!(strings.HasPrefix(path, "allotment.") && method == "UpdateAllotment") {
				t.Errorf("%s: no bad input for %s", method, path)
			}
		}
	}
}

// TestProblems: what is said of a field is for people.
func TestProblems(t *testing.T) {
	b := startServer(t, &fake{}, nil)
	const (
		required  = "is required"
		idRule    = "must be 1 to 63 characters: a-z, 0-9 and '-', not starting with '-'"
		printable = "must be 1 to 128 printable characters"
	)
	tests := []struct {
		method, path string
		value        any
		want         string
	}{
		{"GetAvailability", "allotment_id", nil, "allotment_id: " + required},
		{"GetAvailability", "allotment_id", "-concert", "allotment_id: " + idRule},
		{"WatchAvailability", "allotment_ids", list{"concert", ""}, "allotment_ids[1]: " + required},
		{"WatchAvailability", "allotment_ids", list{"Dinner"}, "allotment_ids[0]: " + idRule},
		{"CreateHold", "buyer_id", nil, "buyer_id: " + required},
		{"CreateHold", "request_id", "tab\t", "request_id: " + printable},
		{"CreateHold", "buyer_id", long, "buyer_id: must be at most 128 characters"},
		{"BatchCreateHolds", "lines", list{object{"quantity": 1}}, "lines[0].allotment_id: " + required},
		{"GetHold", "hold_id", nil, "hold_id: " + required},
		{"GetHold", "hold_id", "concert", "hold_id: " + badHoldID},
		{"BatchConfirmHolds", "hold_ids", list{aHold, ""}, "hold_ids[1]: " + required},
		{"ConfirmHold", "order_id", nil, "order_id: " + required},
		{"CreateAllotment", "allotment", nil, "allotment: " + required},
		{"CreateAllotment", "allotment.id", nil, "allotment.id: " + required},
		{"CreateAllotment", "allotment.group", "a.b", "allotment.group: " + idRule},
		{"UpdateAllotment", "update_mask", nil, "update_mask: " + required},
		{"ListSales", "order_id", "a\nb", "order_id: " + printable},
		{"AdjustCapacity", "delta", nil, "delta: must not be 0"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			err := b.call(t, test.method, changed(validRequests()[test.method], test.path, test.value))
			if got := status.Convert(err).Message(); got != test.want {
				t.Errorf("%s said %q", test.method, got)
			}
		})
	}
}

// TestBadText sends text that is not UTF-8 in every text field of every method.
func TestBadText(t *testing.T) {
	f := &fake{}
	b := startServer(t, f, nil)
	for method := range validRequests() {
		for path, request := range brokenRequests(methodNamed(t, method).Input(), "") {
			t.Run(method+"/"+path, func(t *testing.T) {
				wantField(t, b.send(t, method, request, grpc.ForceCodecV2(rawCodec{})), path)
				if calls := f.taken(); len(calls) > 0 {
					t.Errorf("reached the use cases: %v", calls)
				}
			})
		}
		err := b.send(t, method, []byte{0xff}, grpc.ForceCodecV2(rawCodec{}))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: bytes that are no message: %v", method, err)
		}
	}
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument {
		t.Fatalf("got %v, want INVALID_ARGUMENT", st)
	}
	var got []string
	for _, v := range detail[*errdetails.BadRequest](st).GetFieldViolations() {
		switch text := v.GetDescription(); {
		case text == "":
			t.Errorf("%s: no description", v.GetField())
		case strings.ContainsAny(text, "^\\`"), strings.Contains(text, "at least 1 characters"), text == inWords("another"):
			t.Errorf("%s: %q is not for people", v.GetField(), text)
		}
		got = append(got, v.GetField())
	}
	if !slices.Contains(got, field) {
		t.Errorf("named %q, want %q (%v)", got, field, st)
	}
}
