package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// judgeHolds: R3, by what buyers were told.
func (t *trial) judgeHolds() {
	holds, confirms := 0, 0
	for _, l := range t.lives {
		if l.hold == nil {
			continue
		}
		holds++
		if l.moved {
			t.hold.broken("hold %s: a later answer names an earlier deadline", l.hold.ID)
		}
		if l.short {
			t.hold.broken("hold %s: an answer names a deadline that is not a window of %s after the request", l.hold.ID, seconds(t.Window))
		}
		if l.long && t.Faults == nil { // of a clock that was set back
			t.hold.broken("hold %s: an answer names a deadline that is longer than a window of %s away", l.hold.ID, seconds(t.Window))
		}
		if l.soldTold != never {
			confirms++
			t.confirmed += l.quantity
		}
		for _, c := range l.calls {
			t.judgeHold(l, c)
		}
	}
	t.judgePeak()
	t.hold.Facts = fmt.Sprintf("%s holds, %s of them sold; buyers were told of %s of %s units at once",
		figures.Count(holds), figures.Count(confirms), figures.Count(t.Peak), figures.Count(t.Capacity))
	t.judgeOversold("buyers were told", t.confirmed)
	t.oversold.Facts = fmt.Sprintf("%s sold of %s", figures.Count(t.confirmed), figures.Count(t.Capacity))
}

// judgePeak: of more holds than there are units, some cannot be confirmed.
func (t *trial) judgePeak() {
	if t.Peak, t.PeakAt = peak(t.lives); t.Peak > t.Capacity {
		t.hold.broken("at %s buyers had been told of %d units held or sold at once, of %d", seconds(t.PeakAt), t.Peak, t.Capacity)
	}
}

// judgeOversold: R1, by one who should know what was sold.
func (t *trial) judgeOversold(who string, sold int64) {
	if sold > t.Capacity {
		t.Oversold = max(t.Oversold, sold-t.Capacity)
		t.oversold.broken("%s: %d sold of %d", who, sold, t.Capacity)
	}
}

func (t *trial) judgeHold(l *life, c *Call) {
	first := l.lapseFirstAt(c)
	switch {
	case c.Kind == ConfirmHold && c.Outcome == Refused && c.Answered < first && c.Reason == HoldLapsed && t.isLost(l):
	case c.Kind == ConfirmHold && c.Outcome == Refused && c.Answered < first:
		t.hold.broken("%s: refused with %s before the deadline, which was not before %s", t.call(c), c.Reason, seconds(first))
	case c.Kind == ConfirmHold && c.Outcome == Refused && c.Reason != HoldLapsed:
		t.hold.broken("%s: refused with %s, for which there was no cause", t.call(c), c.Reason)
	case c.Kind == ConfirmHold && c.Outcome == Refused && l.soldTold < c.Sent:
		t.hold.broken("%s: refused with %s, though the hold was sold before", t.call(c), c.Reason)
	case c.Kind == ConfirmHold && c.Outcome == Done:
		t.judgeSale(l, c)
	case c.Kind == CreateHold && c.Outcome == Done:
		t.judgeState(l, c, first)
	}
}

func (t *trial) judgeSale(l *life, c *Call) {
	s, b := c.Sale, t.Buyer(l.buyer)
	if s.HoldID != l.hold.ID || s.Quantity != l.quantity || s.Order != b.Order || s.Cancelled != 0 {
		t.hold.broken("%s: %d units of hold %s asked for under order %s, sold: %+v", t.call(c), l.quantity, l.hold.ID, b.Order, *s)
	}
	if s.Token != l.hold.Token && !t.isLost(l) {
		t.fenced.broken("%s: the hold has token %v, its sale %v", t.call(c), l.hold.Token, s.Token)
	}
}

// judgeState: a hold is live until its deadline, which was not before first, and not for longer, unless it is confirmed.
func (t *trial) judgeState(l *life, c *Call, first time.Duration) {
	maybeSold := l.asked <= c.Answered && (l.confirmed != never || l.open)
	switch state := c.Hold.State; {
	case state < Held || state > Lapsed:
		t.hold.broken("%s: the hold is %s", t.call(c), state)
	case state == Cancelled:
		t.hold.broken("%s: the hold is cancelled, which nobody asked for", t.call(c))
	case state == Lapsed && c.Answered < first && t.isLost(l):
	case state == Lapsed && c.Answered < first:
		t.hold.broken("%s: the hold has lapsed before its deadline, which was not before %s", t.call(c), seconds(first))
	case state == Held && c.Sent > l.lapseLast:
		t.hold.broken("%s: the hold is live after its deadline, which was not after %s", t.call(c), seconds(l.lapseLast))
	case state != Sold && state != Confirming && l.soldTold < c.Sent:
		t.hold.broken("%s: the hold was sold before, and is not any more", t.call(c))
	case (state == Held || state == Lapsed) && l.pinTold < c.Sent && !t.isLost(l):
		t.hold.broken("%s: the hold is %s, though its confirm had begun", t.call(c), state)
	case state == Held && l.lapseTold < c.Sent:
		t.hold.broken("%s: the hold had lapsed before, and is live again", t.call(c))
	case state == Confirming && l.asked <= c.Answered && t.isLost(l): // its confirm began on what is lost, and may be refused elsewhere
	case (state == Sold || state == Confirming) && !maybeSold:
		t.hold.broken("%s: the hold is sold, which nobody asked for", t.call(c))
	}
}

// judgeRepeats: R4, by what buyers were told.
func (t *trial) judgeRepeats() {
	repeats := 0
	owner := map[string]int32{}
	for _, l := range t.lives {
		told := never // when the first answer that names the hold came
		for _, c := range l.calls {
			if c.Kind != CreateHold || c.Outcome != Done {
				continue
			}
			if told != never {
				repeats++
			}
			told = min(told, c.Answered)
			t.judgeAnswer(l, c)
		}
		for _, c := range l.calls {
			if c.Kind == CreateHold && c.Outcome == Refused && told < c.Sent && !t.isLost(l) {
				t.once.broken("%s: refused with %s, though the same request had got hold %s", t.call(c), c.Reason, l.hold.ID)
			}
		}
		if l.hold == nil {
			continue
		}
		if other, there := owner[l.hold.ID]; there {
			t.once.broken("hold %s was given to buyers %s and %s", l.hold.ID, t.Buyer(other).ID, t.Buyer(l.buyer).ID)
		}
		owner[l.hold.ID] = l.buyer
	}
	t.once.Facts = fmt.Sprintf("%s repeats answered", figures.Count(repeats))
}

// judgeAnswer compares an answer with what was asked for and with what was answered first.
func (t *trial) judgeAnswer(l *life, c *Call) {
	b, h := t.Buyer(l.buyer), c.Hold
	if h.Buyer != b.ID || h.Request != b.Request || h.Quantity != b.Quantity {
		t.once.broken("%s: %d units asked for under %s, answered: hold %s of %d for %s, %s",
			t.call(c), b.Quantity, b.Request, h.ID, h.Quantity, h.Buyer, h.Request)
	}
	if h.Order != "" && h.Order != b.Order {
		t.once.broken("%s: to be paid for under order %s, answered: hold %s is %s under order %s", t.call(c), b.Order, h.ID, h.State, h.Order)
	}
	if h.ID != l.hold.ID || (h.Token != l.hold.Token && !t.isLost(l)) {
		t.once.broken("%s: hold %s %v, and first it was %s %v", t.call(c), h.ID, h.Token, l.hold.ID, l.hold.Token)
	}
}

// judgeTokens: R5. A hold that was made after another had been answered has the greater token.
func (t *trial) judgeTokens() {
	var made []*life
	owner := map[Token]string{}
	for _, l := range t.lives {
		if l.hold == nil {
			continue
		}
		if other, there := owner[l.hold.Token]; there && other != l.hold.ID {
			t.fenced.broken("holds %s and %s have the same token %v", other, l.hold.ID, l.hold.Token)
		}
		owner[l.hold.Token] = l.hold.ID
		if l.lost == never { // a server of the past may still give tokens of then
			made = append(made, l)
		}
	}
	t.fenced.Facts = fmt.Sprintf("%s tokens, each greater than those answered before", figures.Count(len(made)))
	answered := slices.Clone(made)
	slices.SortFunc(answered, func(a, b *life) int { return cmp.Compare(a.told(), b.told()) })
	slices.SortFunc(made, func(a, b *life) int { return cmp.Compare(a.from, b.from) })
	var greatest *life
	next := 0
	for _, l := range made {
		for ; next < len(answered) && answered[next].told() < l.from; next++ {
			if greatest == nil || greatest.hold.Token.Before(answered[next].hold.Token) {
				greatest = answered[next]
			}
		}
		if greatest != nil && l.hold.Token.Before(greatest.hold.Token) {
			t.fenced.broken("hold %s, first asked for at %s, has token %v; hold %s, answered at %s, has %v", l.hold.ID,
				seconds(l.from), l.hold.Token, greatest.hold.ID, seconds(greatest.told()), greatest.hold.Token)
		}
	}
}

// told is when the first answer that names the hold came.
func (l *life) told() time.Duration {
	first := never
	for _, c := range l.calls {
		if c.Kind == CreateHold && c.Outcome == Done {
			first = min(first, c.Answered)
		}
	}
	return first
}
