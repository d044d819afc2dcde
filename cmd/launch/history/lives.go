package history

import "time"

// slack is what the server's clock may go wrong against ours over a while: a clock that is slewed does so by up to
// half a thousandth. Times in answers are in milliseconds.
func slack(d time.Duration) time.Duration { return 3*time.Millisecond + d/1000 }

// life is what is known of the one hold that a buyer can have.
type life struct {
	buyer    int32
	quantity int64
	calls    []*Call // the buyer's, both kinds

	from       time.Duration // it was not there before
	known      time.Duration // it was there then, live; never: nobody was told so
	lapseFirst time.Duration // its deadline was not before
	lapseLast  time.Duration // its deadline was not after
	moved      bool          // a later answer names an earlier deadline
	prolonged  bool          // a later answer names a later deadline
	short      bool          // an answer names a deadline that is less than a window after the first request
	long       bool          // an answer says that more than a window is left

	hold      *Hold         // the first answer that names it
	asked     time.Duration // when it was first asked to be confirmed; never: never
	confirmed time.Duration // it was sold then; never: no confirm was told so
	soldTold  time.Duration // an answer of either kind had said by then that it is sold; never: none did
	pinTold   time.Duration // an answer had said by then that its confirm has begun, which then ends it; never: none did
	lapseTold time.Duration // an answer had said by then that it has lapsed; never: none did
	open      bool          // whether it was sold is not known from answers

	lost time.Duration // a fault may have lost it then; never: none can have
	gone bool          // and it is seen to have been lost
}

// lives returns the hold of each buyer, in the order of their first calls.
func (h *History) lives() []*life {
	byBuyer := map[int32]*life{}
	var all []*life
	for _, c := range h.Calls {
		l := byBuyer[c.Buyer]
		if l == nil {
			l = &life{
				buyer: c.Buyer, quantity: h.Buyer(c.Buyer).Quantity, from: never, known: never, asked: never, confirmed: never,
				soldTold: never, pinTold: never, lapseTold: never, lost: never,
			}
			byBuyer[c.Buyer] = l
			all = append(all, l)
		}
		l.calls = append(l.calls, c)
	}
	for _, l := range all {
		l.ends()
		l.gather(h.Window)
	}
	h.resolve(all)
	if h.Faults == nil {
		prolong(all)
	} else {
		h.endure(all)
	}
	return all
}

// gather looks through the calls.
func (l *life) gather(window time.Duration) {
	var answers []*Call
	refused := 0
	confirms := 0
	for _, c := range l.calls {
		switch {
		case c.Kind == CreateHold && c.Outcome == Done:
			answers = append(answers, c)
			l.from = min(l.from, c.Sent)
			if l.hold == nil {
				l.hold = c.Hold
			}
			if c.Hold.State == Held {
				l.known = min(l.known, c.Answered)
			}
		case c.Kind == CreateHold && c.Outcome != Refused:
			l.from = min(l.from, c.Sent)
		case c.Kind == ConfirmHold:
			confirms++
			l.asked = min(l.asked, c.Sent)
			switch c.Outcome {
			case Done:
				l.confirmed = min(l.confirmed, c.Answered)
			case Refused:
				refused++
			default:
			}
		}
	}
	// One final refusal of a confirm stands for those before it that met trouble.
	l.open = confirms > 0 && refused == 0 && l.confirmed == never
	l.deadline(answers, window)
}

// ends notes when an answer first said that the hold is sold, that its confirm has begun, and that it has lapsed.
func (l *life) ends() {
	for _, c := range l.calls {
		switch {
		case c.Outcome == Done && (c.Kind == ConfirmHold || c.Hold.State == Sold):
			l.soldTold = min(l.soldTold, c.Answered)
		case c.Outcome == Done && c.Hold.State == Confirming:
			l.pinTold = min(l.pinTold, c.Answered)
		case c.Outcome == Done && c.Hold.State == Lapsed, c.Kind == ConfirmHold && c.Reason == HoldLapsed:
			l.lapseTold = min(l.lapseTold, c.Answered)
		}
	}
}

// deadline narrows down when the hold lapses.
func (l *life) deadline(answers []*Call, window time.Duration) {
	if len(answers) == 0 {
		l.lapseFirst, l.lapseLast = never, never
		return
	}
	first := answers[0].Answered
	for _, c := range answers {
		first = min(first, c.Answered)
	}
	narrow := span{l.from + window - slack(window), first + window + slack(window)}
	wide := narrow
	for i, c := range answers {
		if c.Hold.State != Held {
			continue
		}
		s := promised(c)
		l.long = l.long || c.Hold.Remaining > window+slack(window)
		l.short = l.short || s.until < l.from+window-slack(window)
		narrow = span{max(narrow.from, s.from), min(narrow.until, s.until)}
		wide = span{min(wide.from, s.from), max(wide.until, s.until)}
		for _, earlier := range answers[:i] {
			if earlier.Hold.State == Held && earlier.Answered < c.Sent {
				l.moved = l.moved || s.until < promised(earlier).from
				l.prolonged = l.prolonged || (s.from > promised(earlier).until && l.lapseTold >= c.Sent)
			}
		}
	}
	if narrow.from > narrow.until {
		narrow = wide // after an outage a hold keeps the time that it had left
	}
	l.lapseFirst, l.lapseLast = narrow.from, narrow.until
}

// lapseFirstAt is what lapseFirst is for who sends c: a later deadline that was named before, as after an outage, stands.
func (l *life) lapseFirstAt(c *Call) time.Duration {
	first := l.lapseFirst
	for _, earlier := range l.calls {
		if earlier.Kind == CreateHold && earlier.Outcome == Done && earlier.Hold.State == Held && earlier.Answered < c.Sent {
			first = max(first, promised(earlier).from)
		}
	}
	return first
}

type span struct{ from, until time.Duration }

// promised is when a live hold lapses, by what an answer says is left.
func promised(c *Call) span {
	left := c.Hold.Remaining
	return span{c.Sent + left - slack(left), c.Answered + left + slack(left)}
}

// prolong takes into account that an adopt gives live holds the time that an outage took from them, of which not every
// buyer is told: an allotment with holds of several epochs was adopted, and one with a hold that got more time. A hold that
// lapsed just before may then live again.
func prolong(all []*life) {
	epochs, adopted := map[int64]bool{}, false
	for _, l := range all {
		if l.hold != nil {
			epochs[l.hold.Token.Epoch] = true
		}
		adopted = adopted || l.prolonged
	}
	if !adopted && len(epochs) < 2 {
		return
	}
	for _, l := range all {
		l.lapseLast, l.lapseTold = never, never
	}
}

// resolve lets the server's own list say whether calls without an answer have made a hold.
func (h *History) resolve(all []*life) {
	if h.Final == nil {
		return
	}
	there := map[string]bool{}
	for _, hold := range h.Final.Holds {
		there[hold.Buyer] = true
	}
	for _, l := range all {
		if l.hold == nil && l.from != never && !there[h.Buyer(l.buyer).ID] && !h.forgotten(l) {
			l.from = never // nothing came of it
		}
	}
}

// possibly returns how many units can have been taken at each moment, at most.
func possibly(lives []*life) *steps {
	var s steps
	for _, l := range lives {
		until := never
		if l.hold != nil && l.soldTold == never && !l.open {
			until = after(l.lapseLast)
		}
		s.add(l.from, until, l.quantity)
	}
	return s.build(true)
}

// certainly returns how many units must have been taken at each moment, at least.
func certainly(lives []*life) *steps {
	return certain(lives).build(false)
}

// peak returns the most units that must have been taken at one moment.
func peak(lives []*life) (units int64, at time.Duration) {
	s := certain(lives)
	return s.build(true).all()
}

func certain(lives []*life) *steps {
	var s steps
	for _, l := range lives {
		until := min(l.lapseFirst, l.lost)
		if l.soldTold != never && l.soldTold <= until {
			s.add(min(l.known, l.soldTold), never, l.quantity)
			continue
		}
		s.add(l.known, until, l.quantity)
		s.add(l.soldTold, never, l.quantity)
	}
	return &s
}

// soldAtMost returns how many units can have been sold at each moment.
func soldAtMost(lives []*life) *steps {
	var s steps
	for _, l := range lives {
		if l.soldTold != never || l.open {
			s.add(l.asked, never, l.quantity)
		}
	}
	return s.build(true)
}
