package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const none = "-" // in a table, for what is not set

// writeJSON writes a message as one line. Fields that are 0 or empty are there too, so that scripts need not know which can be.
func writeJSON(out io.Writer, message proto.Message) error {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return fmt.Errorf("write the answer as JSON: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson varies its spaces on purpose
		return fmt.Errorf("write the answer as JSON: %w", err)
	}
	line.WriteByte('\n')
	_, err = out.Write(line.Bytes())
	return err
}

// writeTable writes rows in columns.
func writeTable(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// writeAllotment writes one allotment: for people, a line for each field.
func writeAllotment(out io.Writer, asJSON bool, a *pb.Allotment) error {
	if asJSON {
		return writeJSON(out, a)
	}
	return writeTable(out, [][]string{
		{"id", a.GetId()},
		{"group", a.GetGroup()},
		{"state", stateText(a.GetState())},
		{"capacity", number(a.GetCapacity())},
		{"hold duration", duration(a.GetHoldDuration())},
		{"max hold duration", duration(a.GetMaxHoldDuration())},
		{"max quantity per hold", number(a.GetMaxQuantityPerHold())},
		{"max quantity per buyer", perBuyer(a)},
		{"opens at", moment(a.GetOpensAt())},
		{"closes at", moment(a.GetClosesAt())},
		{"late confirm", lateText(a.GetLateConfirm())},
		{"created", moment(a.GetCreateTime())},
		{"changed", moment(a.GetUpdateTime())},
		{"etag", a.GetEtag()},
	})
}

func allotmentHeader() []string {
	return []string{"ID", "GROUP", "STATE", "CAPACITY", "HOLD", "MAX HOLD", "PER HOLD", "PER BUYER", "OPENS", "CLOSES", "LATE CONFIRM"}
}

func allotmentRow(a *pb.Allotment) []string {
	return []string{
		a.GetId(), a.GetGroup(), stateText(a.GetState()), number(a.GetCapacity()), duration(a.GetHoldDuration()),
		duration(a.GetMaxHoldDuration()), number(a.GetMaxQuantityPerHold()), perBuyer(a), moment(a.GetOpensAt()),
		moment(a.GetClosesAt()), lateText(a.GetLateConfirm()),
	}
}

func holdHeader() []string {
	return []string{"HOLD", "BUYER", "UNITS", "STATE", "LEFT", "EXPIRES", "ORDER", "REQUEST"}
}

func holdRow(h *pb.Hold) []string {
	left := none
	if h.GetState() == pb.HoldState_HOLD_STATE_HELD {
		left = duration(h.GetRemaining())
	}
	return []string{
		h.GetId(), h.GetBuyerId(), number(h.GetQuantity()), enumText(h.GetState().String(), "HOLD_STATE_"), left,
		moment(h.GetExpireTime()), text(h.GetOrderId()), h.GetRequestId(),
	}
}

func saleHeader() []string {
	return []string{"HOLD", "BUYER", "ORDER", "UNITS", "CANCELLED", "SOLD", "LAST CANCELLED"}
}

func saleRow(s *pb.Sale) []string {
	return []string{
		s.GetHoldId(), s.GetBuyerId(), s.GetOrderId(), number(s.GetQuantity()), number(s.GetCancelledQuantity()),
		moment(s.GetSoldTime()), moment(s.GetCancelTime()),
	}
}

func findingHeader() []string {
	return []string{"KIND", "HOLD", "BUYER", "DIFFERENCE", "EXPECTED", "ACTUAL", "WHAT", "ACTION"}
}

func findingRow(f *pb.Finding) []string {
	return []string{
		enumText(f.GetKind().String(), "FINDING_KIND_"), text(f.GetHoldId()), text(f.GetBuyerId()),
		fmt.Sprintf("%+d", f.GetDifference()), text(f.GetExpected()), text(f.GetActual()), f.GetWhat(), f.GetAction(),
	}
}

func number[N int32 | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

func text(s string) string {
	if s == "" {
		return none
	}
	return s
}

func perBuyer(a *pb.Allotment) string {
	if a.MaxQuantityPerBuyer == nil {
		return none
	}
	return number(a.GetMaxQuantityPerBuyer())
}

func duration(d *durationpb.Duration) string {
	if d == nil {
		return none
	}
	return d.AsDuration().Round(time.Millisecond).String()
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return none
	}
	return t.AsTime().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

func stateText(s pb.AllotmentState) string { return enumText(s.String(), "ALLOTMENT_STATE_") }

func lateText(l pb.LateConfirm) string {
	return strings.ReplaceAll(enumText(l.String(), "LATE_CONFIRM_"), "_", "-")
}

// enumText is an enum's value as it is typed: ALLOTMENT_STATE_OPEN is open.
func enumText(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }
