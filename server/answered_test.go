package server

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestRememberedAnswersAreThoseOfTheirRefusals: whatever was answered before, a refusal's answer is the one made of its own values.
func TestRememberedAnswersAreThoseOfTheirRefusals(t *testing.T) {
	all := everyError()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		remembered := newAnswered()
		for range 50 {
			refusal := someRefusal(t, all, names)
			got, want := remembered.failureOf(refusal), failureOf(refusal)
			if want.retry > 0 { // drawn at random
				if got.outcome != want.outcome || got.retry == 0 || remembered.failureOf(refusal) == got {
					t.Fatalf("%+v: answered %v, which is to be drawn for each", refusal, got)
				}
				continue
			}
			if got.outcome != want.outcome || (got.cause == nil) != (want.cause == nil) || !proto.Equal(got.status.Proto(), want.status.Proto()) {
				t.Fatalf("%+v: answered %v, must be %v", refusal, got, want)
			}
		}
	})
}

// someRefusal is one of any reason, few values of which differ from those of others.
func someRefusal(t *rapid.T, all map[string]error, names []string) *store.Refusal {
	known, ok := all[rapid.SampledFrom(names).Draw(t, "reason")].(*store.Refusal) //nolint:errorlint // as everyError has it
	if !ok {
		known = &store.Refusal{Reason: store.SoldOut, Allotment: "concert"}
	}
	refusal := *known
	fields := reflect.ValueOf(&refusal).Elem()
	field := fields.Field(rapid.IntRange(0, fields.NumField()-1).Draw(t, "field"))
	switch value := field.Addr().Interface().(type) {
	case *int64:
		*value = rapid.Int64Range(1, 3).Draw(t, "number")
	case *time.Duration:
		*value = time.Duration(rapid.Int64Range(0, 2).Draw(t, "seconds")) * time.Second
	case *time.Time:
		*value = noon.Add(time.Duration(rapid.Int64Range(0, 2).Draw(t, "seconds")) * time.Second)
	case *string:
		*value = rapid.SampledFrom([]string{"", "concert", "other"}).Draw(t, "text")
	}
	return &refusal
}

func TestRefusalsThatAreAlikeShareTheirAnswer(t *testing.T) {
	remembered := newAnswered()
	soldOut := store.Refusal{Reason: store.SoldOut, Allotment: "concert", Requested: 2, Capacity: 5000, Sold: 5000, Version: 7}
	first, again := soldOut, soldOut
	if remembered.failureOf(&first) != remembered.failureOf(&again) {
		t.Error("the answer was made anew")
	}
	changed := soldOut
	changed.Version++
	if remembered.failureOf(&changed) == remembered.failureOf(&again) {
		t.Error("another version has the same answer")
	}
}

// TestAnswersOfManyAtOnce is for the race detector.
func TestAnswersOfManyAtOnce(t *testing.T) {
	remembered := newAnswered()
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for n := range 2000 {
				refusal := &store.Refusal{
					Reason: store.SoldOut, Allotment: fmt.Sprint("concert-", n%300), Requested: int64(caller % 2), Capacity: 5, Sold: 5,
				}
				if got := remembered.failureOf(refusal).status.Message(); got != failureOf(refusal).status.Message() {
					t.Errorf("%+v: %s", refusal, got)
				}
			}
		})
	}
	all.Wait()
}
