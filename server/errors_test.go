package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
	"github.com/holdfast-inventory/holdfast/store"
)

// documentedReason is what error_reason.proto says of a reason.
type documentedReason struct {
	code          codes.Code
	retry         bool
	always, known []string // metadata
}

// documentedReasons reads the comments of error_reason.proto: clients are written against them.
func documentedReasons(t *testing.T) map[string]documentedReason {
	t.Helper()
	source, err := os.ReadFile("../proto/holdfast/v1/error_reason.proto")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "enum ErrorReason {")
	value := regexp.MustCompile(`((?:\s*//[^\n]*\n)+)\s*ERROR_REASON_([A-Z_]+) = [1-9]`)
	start := regexp.MustCompile(`^([A-Z_]+), (final|retry)`)
	aside := regexp.MustCompile(`\([^()]*\)`)
	codeByName := map[string]codes.Code{}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		codeByName[codeName(c)] = c
	}
	documented := map[string]documentedReason{}
	for _, match := range value.FindAllStringSubmatch(body, -1) {
		text := strings.Join(strings.Fields(strings.ReplaceAll(match[1], "//", " ")), " ")
		head := start.FindStringSubmatch(text)
		_, list, found := strings.Cut(text, "Metadata: ")
		if head == nil || !found {
			t.Fatalf("%s: its comment does not begin with a code and end with the metadata: %q", match[2], text)
		}
		d := documentedReason{code: codeByName[head[1]], retry: head[2] == "retry"}
		list = strings.TrimSuffix(aside.ReplaceAllString(list, ""), ".")
		optional := false
		if list == "none" {
			documented[match[2]] = d
			continue
		}
		for key := range strings.SplitSeq(list, ",") {
			key = strings.TrimSpace(key)
			optional = optional || strings.HasPrefix(key, "[")
			if !optional {
				d.always = append(d.always, strings.TrimSpace(key))
			}
			d.known = append(d.known, strings.TrimSpace(strings.Trim(key, "[] ")))
			if strings.HasSuffix(key, "]") {
				optional = false
			}
		}
		documented[match[2]] = d
	}
	return documented
}

// everyError is one error for each reason there is, with every fact that it may carry.
func everyError() map[string]error {
	now := time.Date(2026, 7, 30, 12, 0, 0, 123e6, time.FixedZone("", 3600))
	full := store.Refusal{
		Allotment: "concert", Requested: 2, Capacity: 500, Sold: 499, Held: 1, Version: 7, NextLapse: now,
		HoldID: "concert.x", HoldRemaining: 93412 * time.Millisecond, Limit: 4, BuyerHeld: 3, BuyerSold: 1,
		OpensAt: now, ClosesAt: now.Add(time.Hour), OrderID: "o-1", SmallestCapacity: 500, Field: "quantity",
	}
	every := map[string]error{
		"RESULT_UNKNOWN":     store.ErrResultUnknown,
		"QUEUE_FULL":         store.ErrQueueFull,
		"STORE_UNAVAILABLE":  store.ErrUnavailable,
		"BUYER_RATE_LIMITED": &tooOften{wait: time.Second, limit: 20},
		"REBUILDING":         &store.AdoptNeeded{Places: []store.Place{{Allotment: "concert"}}},
		"CALLER_UNKNOWN":     &auth.Unknown{Why: "who"},
		"CALLER_NOT_ALLOWED": &notAllowed{"shop", " may not"},
	}
	for _, reason := range []store.Reason{
		store.SoldOut, store.AllHeld, store.HoldConfirming, store.OrderExists, store.BuyerLimit, store.NotOpen,
		store.Paused, store.Closed, store.HoldLapsed, store.HoldCancelled, store.HoldSold, store.SaleCancelled,
		store.ExtensionLimit, store.RequestMismatch, store.OrderMismatch, store.StaleToken, store.StaleEtag,
		store.CapacityInUse, store.DifferentGroups, store.AllotmentNotFound, store.AllotmentExists,
		store.HoldNotFound, store.SaleNotFound,
	} {
		refusal := full
		refusal.Reason = reason
		every[string(reason)] = &refusal
	}
	return every
}

func TestEveryReason(t *testing.T) {
	documented := documentedReasons(t)
	for number := range pb.ErrorReason_name {
		reason := reasonText(pb.ErrorReason(number))
		if number == 0 {
			continue
		}
		t.Run(reason, func(t *testing.T) {
			want, ok := documented[reason]
			if !ok {
				t.Fatal("is not documented")
			}
			cause, ok := everyError()[reason]
			if !ok {
				t.Fatal("no error gives it")
			}
			f := failureOf(fmt.Errorf("create: %w", cause))
			if f.status.Code() != want.code {
				t.Errorf("code %v, want %v", f.status.Code(), want.code)
			}
			if f.status.Message() == "" || f.outcome != reason || f.cause != nil {
				t.Errorf("message %q, outcome %q, cause %v", f.status.Message(), f.outcome, f.cause)
			}
			checkDetails(t, f, reason, want)
		})
	}
	if extra := len(everyError()) - len(documented); extra != 0 {
		t.Errorf("%d errors more than documented reasons", extra)
	}
}

func checkDetails(t *testing.T, f *failure, reason string, want documentedReason) {
	t.Helper()
	info := detail[*errdetails.ErrorInfo](f.status)
	if info == nil {
		t.Fatal("no ErrorInfo")
	}
	if info.GetReason() != reason || info.GetDomain() != "holdfast.v1" {
		t.Errorf("reason %q of domain %q", info.GetReason(), info.GetDomain())
	}
	keys := slices.Collect(maps.Keys(info.GetMetadata()))
	for _, key := range keys {
		if !slices.Contains(want.known, key) {
			t.Errorf("metadata %q is not documented", key)
		}
	}
	for _, key := range want.always {
		if !slices.Contains(keys, key) && !isTrouble(reason) {
			t.Errorf("no metadata %q", key)
		}
	}
	retry := detail[*errdetails.RetryInfo](f.status)
	if (retry != nil) != want.retry || (f.retry > 0) != want.retry {
		t.Errorf("RetryInfo %v, pushback %v, want them: %v", retry, f.retry, want.retry)
	}
	if retry != nil && retry.GetRetryDelay().AsDuration() != f.retry {
		t.Errorf("RetryInfo %v differs from the trailer's %v", retry, f.retry)
	}
}

func isTrouble(reason string) bool {
	return reason == reasonRebuilding || reason == reasonStoreUnavailable || reason == reasonQueueFull ||
		reason == reasonResultUnknown
}

func detail[T any](st *status.Status) T {
	var none T
	for _, d := range st.Details() {
		if found, ok := d.(T); ok {
			return found
		}
	}
	return none
}

func TestMetadata(t *testing.T) {
	every := everyError()
	tests := map[string]map[string]string{
		"ALL_HELD": {
			"allotment_id": "concert", "capacity": "500", "sold": "499", "held": "1", "version": "7", "requested": "2",
			"next_lapse_time": "2026-07-30T11:00:00.123Z", "hold_id": "concert.x", "hold_remaining_seconds": "93.412",
		},
		"SOLD_OUT": {
			"allotment_id": "concert", "capacity": "500", "sold": "499", "held": "1", "version": "7", "requested": "2",
			"next_lapse_time": "2026-07-30T11:00:00.123Z",
		},
		"STALE_ETAG":      {"allotment_id": "concert", "etag": formatEtag(7), "capacity": "500"},
		"HOLD_NOT_FOUND":  {"hold_id": "concert.x"},
		"ORDER_EXISTS":    {"allotment_id": "concert", "order_id": "o-1", "hold_id": "concert.x"},
		"CAPACITY_IN_USE": {"allotment_id": "concert", "capacity": "500", "sold": "499", "held": "1", "smallest_capacity": "500"},
		"REBUILDING":      {"allotment_id": "concert"},
	}
	for reason, want := range tests {
		info := detail[*errdetails.ErrorInfo](failureOf(every[reason]).status)
		if diff := cmp.Diff(want, info.GetMetadata()); diff != "" {
			t.Errorf("%s: metadata differs (-want +got):\n%s", reason, diff)
		}
	}
	bare := detail[*errdetails.ErrorInfo](failureOf(&store.Refusal{Reason: store.AllHeld, Allotment: "a"}).status)
	for _, absent := range []string{"next_lapse_time", "hold_id", "hold_remaining_seconds"} {
		if text, ok := bare.GetMetadata()[absent]; ok {
			t.Errorf("%s is %q though it is not known", absent, text)
		}
	}
}

// TestRejection: a store that refuses to work is not said to be out of reach; nobody is told what it said.
func TestRejection(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{store.ErrUnavailable, "a store could not be reached in time: repeat with the same ids"},
		{
			fmt.Errorf("%w: redis: %w", store.ErrUnavailable, &store.Rejection{Store: "Redis", Kind: "OOM", Err: errors.New("OOM: hunter2")}),
			"Redis is up but refuses to work (OOM): repeat with the same ids",
		},
	} {
		if got := failureOf(test.err).status.Message(); got != test.want {
			t.Errorf("%v: callers are told %q, want %q", test.err, got, test.want)
		}
	}
}

func TestOtherErrors(t *testing.T) {
	secret := errors.New("dial tcp: password hunter2 rejected")
	tests := []struct {
		name    string
		err     error
		code    codes.Code
		outcome string
		field   string
		logged  bool
	}{
		{"field", &store.InvalidField{Field: "quantity", Problem: "at most 10"}, codes.InvalidArgument, "INVALID_ARGUMENT", "quantity", false},
		{"stale", store.ErrStale, codes.Unavailable, "REBUILDING", "", false},
		{"rebuilding", store.ErrRebuilding, codes.Unavailable, "REBUILDING", "", false},
		{"unavailable for want of time", fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded), codes.Unavailable, "STORE_UNAVAILABLE", "", false},
		{"unavailable since it refuses", fmt.Errorf("%w: %w", store.ErrUnavailable, &store.Rejection{Store: "Redis", Kind: "OOM", Err: secret}), codes.Unavailable, "STORE_UNAVAILABLE", "", false},
		{"result unknown for want of time", fmt.Errorf("%w: %w", store.ErrResultUnknown, context.Canceled), codes.Unavailable, "RESULT_UNKNOWN", "", false},
		{"result unknown beats what it met", fmt.Errorf("%w: %w", store.ErrResultUnknown, &store.AdoptNeeded{Places: make([]store.Place, 1)}), codes.Unavailable, "RESULT_UNKNOWN", "", false},
		{"deadline", fmt.Errorf("read: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "", false},
		{"cancelled", context.Canceled, codes.Canceled, "CANCELLED", "", false},
		{"constraint", store.ErrConstraint, codes.Internal, "INTERNAL", "", true},
		{"constraint beside trouble", fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrConstraint), codes.Internal, "INTERNAL", "", true},
		{"unknown", secret, codes.Internal, "INTERNAL", "", true},
		{"unknown reason", &store.Refusal{Reason: "NEW"}, codes.Internal, "INTERNAL", "", true},
		{"panic", errPanic, codes.Internal, "INTERNAL", "", false},
		{"stopping", errStopping, codes.Unavailable, "STOPPING", "", false},
		{"gRPC's own", status.Error(codes.Unimplemented, "unknown method"), codes.Unimplemented, "UNIMPLEMENTED", "", false},
		{"mapped before", failureOf(context.Canceled), codes.Canceled, "CANCELLED", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := failureOf(test.err)
			if f.status.Code() != test.code || f.outcome != test.outcome || (f.cause != nil) != test.logged {
				t.Errorf("code %v, outcome %s, cause %v", f.status.Code(), f.outcome, f.cause)
			}
			if strings.Contains(f.status.String(), "hunter2") {
				t.Error("the cause is shown to the caller")
			}
			bad := detail[*errdetails.BadRequest](f.status)
			if got := bad.GetFieldViolations(); test.field != "" && (len(got) != 1 || got[0].GetField() != test.field) {
				t.Errorf("BadRequest %v, want field %s", bad, test.field)
			}
		})
	}
}
