package admin

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// rateOver is the time over which a rate is taken: sales come in bursts.
const rateOver = 10 * time.Second

// view is what a watch has shown of each allotment.
type view struct {
	ids     []string
	seen    map[string]*watched
	trouble error // that the numbers may be old
}

// watched is the newest numbers of an allotment, and what was sold before.
type watched struct {
	numbers *pb.Availability
	at      time.Time // when they came, by our clock
	since   time.Time // when the first came
	sold    []soldAt  // oldest first; one from before the last rateOver, if there is one
}

type soldAt struct {
	at   time.Time
	sold int64
}

func newView(ids []string) *view {
	return &view{ids: ids, seen: map[string]*watched{}}
}

// note keeps numbers, and says whether they differ from those before.
func (v *view) note(a *pb.Availability, now time.Time) bool {
	w := v.seen[a.GetAllotmentId()]
	if w == nil {
		w = &watched{since: now}
		v.seen[a.GetAllotmentId()] = w
	}
	changed := !same(w.numbers, a)
	w.numbers, w.at = a, now
	w.sold = append(w.sold, soldAt{now, a.GetSold()})
	for len(w.sold) > 1 && now.Sub(w.sold[1].at) >= rateOver {
		w.sold = w.sold[1:]
	}
	return changed
}

// same compares all but the time at which they were read.
func same(a, b *pb.Availability) bool {
	if a == nil {
		return false
	}
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	x.ReadTime, y.ReadTime = nil, nil
	return proto.Equal(x, y)
}

// rate is how many units were sold a second lately, less those cancelled. In the first second nothing is known of it.
func (w *watched) rate(now time.Time) string {
	watching := now.Sub(w.since)
	if watching < time.Second {
		return none
	}
	before := w.sold[0]
	for _, s := range w.sold {
		if now.Sub(s.at) < rateOver {
			break
		}
		before = s
	}
	over := min(watching, rateOver)
	return fmt.Sprintf("%.1f/s", float64(w.numbers.GetSold()-before.sold)/over.Seconds())
}

// nextLapse is how long until units may come back by themselves, by the clock that decides it: ours only counts on.
func (w *watched) nextLapse(now time.Time) string {
	if w.numbers.GetNextLapseTime() == nil {
		return none
	}
	left := w.numbers.GetNextLapseTime().AsTime().Sub(w.numbers.GetReadTime().AsTime()) - now.Sub(w.at)
	return max(left, 0).Round(time.Second).String()
}

// table is the numbers of all, in the order in which they were asked for.
func (v *view) table(now time.Time) [][]string {
	rows := [][]string{{"ALLOTMENT", "STATE", "CAPACITY", "AVAILABLE", "HELD", "SOLD", "RATE", "NEXT LAPSE"}}
	for _, id := range v.ids {
		w := v.seen[id]
		if w == nil {
			rows = append(rows, []string{id, none, none, none, none, none, none, none})
			continue
		}
		a := w.numbers
		rows = append(rows, []string{
			id, stateText(a.GetState()), number(a.GetCapacity()), number(a.GetAvailable()), number(a.GetHeld()),
			number(a.GetSold()), w.rate(now), w.nextLapse(now),
		})
	}
	return rows
}

// lines is what is wrong, and the table.
func (v *view) lines(now time.Time) []string {
	var text strings.Builder
	_ = writeTable(&text, v.table(now)) // a Builder takes everything
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if v.trouble != nil {
		what, _, _ := strings.Cut(v.trouble.Error(), "\n")
		lines = append([]string{"the watch ended, and is opened again: " + what}, lines...)
	}
	return lines
}

// line is one change.
func (v *view) line(a *pb.Availability, now time.Time) string {
	w := v.seen[a.GetAllotmentId()]
	return fmt.Sprintf("%s %s %s capacity=%d available=%d held=%d sold=%d rate=%s next_lapse=%s",
		moment(a.GetReadTime()), a.GetAllotmentId(), stateText(a.GetState()), a.GetCapacity(), a.GetAvailable(), a.GetHeld(), a.GetSold(),
		w.rate(now), w.nextLapse(now))
}
