package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// rules are the rules of an allotment that can be chosen and changed. Those not given are left to the server.
type rules struct {
	HoldDuration        *time.Duration `name:"hold-duration" placeholder:"DURATION" help:"How long a hold lasts, 1s to 24h. A new allotment has 2m."`
	MaxHoldDuration     *time.Duration `name:"max-hold-duration" placeholder:"DURATION" help:"The longest a hold can last, extensions included, 1s to 168h. A new allotment has 6m."`
	MaxQuantityPerHold  *int32         `name:"max-quantity-per-hold" placeholder:"N" help:"Most units of one hold, 1 to 1000. A new allotment has 10."`
	MaxQuantityPerBuyer *int32         `name:"max-quantity-per-buyer" placeholder:"N" help:"Most units of one buyer, held and sold. A new allotment has no limit."`
	OpensAt             *time.Time     `name:"opens-at" placeholder:"TIME" help:"Holds are refused before, such as 2026-11-27T09:00:00Z."`
	ClosesAt            *time.Time     `name:"closes-at" placeholder:"TIME" help:"Holds and extensions are refused from then on."`
	State               *string        `name:"state" enum:"open,paused,closed" placeholder:"open|paused|closed" help:"Whether holds are given."`
	LateConfirm         *string        `name:"late-confirm" enum:"accept-if-available,reject" placeholder:"accept-if-available|reject" help:"What a confirm after the deadline gets."`
}

// Problems finds what the server would take for a rule that is not given.
func (r *rules) Problems() []string {
	if r.MaxQuantityPerHold != nil && *r.MaxQuantityPerHold == 0 {
		return []string{"--max-quantity-per-hold: must be 1 to 1000"}
	}
	return nil
}

// apply sets the rules that are given, and returns their names.
func (r *rules) apply(a *pb.Allotment) (given []string) {
	set := func(name string, is bool, do func()) {
		if is {
			given = append(given, name)
			do()
		}
	}
	set("hold_duration", r.HoldDuration != nil, func() { a.HoldDuration = durationpb.New(*r.HoldDuration) })
	set("max_hold_duration", r.MaxHoldDuration != nil, func() { a.MaxHoldDuration = durationpb.New(*r.MaxHoldDuration) })
	set("max_quantity_per_hold", r.MaxQuantityPerHold != nil, func() { a.MaxQuantityPerHold = *r.MaxQuantityPerHold })
	set("max_quantity_per_buyer", r.MaxQuantityPerBuyer != nil, func() { a.MaxQuantityPerBuyer = r.MaxQuantityPerBuyer })
	set("opens_at", r.OpensAt != nil, func() { a.OpensAt = timestamppb.New(*r.OpensAt) })
	set("closes_at", r.ClosesAt != nil, func() { a.ClosesAt = timestamppb.New(*r.ClosesAt) })
	set("state", r.State != nil, func() {
		a.State = pb.AllotmentState(pb.AllotmentState_value["ALLOTMENT_STATE_"+constant(*r.State)])
	})
	set("late_confirm", r.LateConfirm != nil, func() {
		a.LateConfirm = pb.LateConfirm(pb.LateConfirm_value["LATE_CONFIRM_"+constant(*r.LateConfirm)])
	})
	return given
}

// constant is the name in the proto files of what is typed.
func constant(typed string) string { return strings.ToUpper(strings.ReplaceAll(typed, "-", "_")) }

// field is the name in the proto files of a flag.
func field(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// mask is what an update changes: the rules given, and those to be reset, in which none may be twice.
func mask(given, reset []string) ([]string, []string) {
	var problems []string
	for _, flag := range reset {
		if name := field(flag); slices.Contains(given, name) {
			problems = append(problems, fmt.Sprintf("--reset: %s is given a value too", flag))
		} else {
			given = append(given, name)
		}
	}
	if len(given) == 0 && len(problems) == 0 {
		problems = []string{"give at least one rule to change, such as --state paused"}
	}
	return given, problems
}
