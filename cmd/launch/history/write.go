package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// entry is a call as it is written: a line of JSON. Times are in microseconds from the start.
type entry struct {
	Call     string `json:"call"`
	Buyer    string `json:"buyer"`
	Attempt  uint8  `json:"attempt,omitempty"`
	Repeat   bool   `json:"repeat,omitempty"`
	Sent     int64  `json:"sent_us"`
	Answered int64  `json:"answered_us,omitempty"` // 0: never
	Outcome  string `json:"outcome"`
	Reason   Reason `json:"reason,omitempty"`
	Server   string `json:"server,omitempty"`
	Hold     *Hold  `json:"hold,omitempty"`
	Sale     *Sale  `json:"sale,omitempty"`
}

func (k Kind) String() string { return [...]string{"create", "confirm"}[k] }

// String names an outcome as checkers of histories do: what met trouble may have been carried out or not.
func (o Outcome) String() string {
	return [...]string{"unknown, no answer", "done", "refused", "unknown, trouble"}[o]
}

// Write writes the faults and every call as lines of JSON.
func (h *History) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	for _, f := range h.Faults {
		if err := lines.Encode(map[string]any{
			"fault": f.Name, "from_us": f.From.Microseconds(), "until_us": f.Until.Microseconds(), "loses": f.Loses,
		}); err != nil {
			return err
		}
	}
	for _, c := range h.Calls {
		if err := lines.Encode(entry{
			Call: c.Kind.String(), Buyer: h.Buyer(c.Buyer).ID, Attempt: c.Attempt, Repeat: c.Repeat, Sent: c.Sent.Microseconds(),
			Answered: c.Answered.Microseconds(), Outcome: c.Outcome.String(), Reason: c.Reason, Server: c.Server, Hold: c.Hold, Sale: c.Sale,
		}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Story tells what happened to the hold of a breach: the shortest that there is to tell, of the breaches that name a hold or
// a buyer. Nothing: none does.
func (h *History) Story(v *Verdict) []string {
	var shortest []string
	for _, p := range v.Promises {
		for _, breach := range p.Examples {
			if s := h.story(p.ID+": "+breach, breach); s != nil && (shortest == nil || len(s) < len(shortest)) {
				shortest = s
			}
		}
	}
	return shortest
}

// story tells of the hold or the buyer that a breach names.
func (h *History) story(title, breach string) []string {
	named := map[int32]bool{}
	for _, c := range h.Calls {
		if strings.Contains(breach, h.Buyer(c.Buyer).ID) || (c.Hold != nil && strings.Contains(breach, c.Hold.ID)) {
			named[c.Buyer] = true
		}
	}
	if len(named) == 0 {
		return nil
	}
	story := []string{title}
	faults := h.Faults
	for _, c := range h.Calls {
		if !named[c.Buyer] {
			continue
		}
		for len(faults) > 0 && faults[0].From <= c.Sent {
			story = append(story, fmt.Sprintf("%s to %s: %s", seconds(faults[0].From), seconds(faults[0].Until), faults[0].Name))
			faults = faults[1:]
		}
		story = append(story, h.tell(c))
	}
	for _, f := range faults {
		story = append(story, fmt.Sprintf("%s to %s: %s", seconds(f.From), seconds(f.Until), f.Name))
	}
	return story
}

// tell tells of one call.
func (h *History) tell(c *Call) string {
	text := fmt.Sprintf("%s: %s of %d for buyer %s", seconds(c.Sent), c.Kind, h.Buyer(c.Buyer).Quantity, h.Buyer(c.Buyer).ID)
	if c.Outcome == NoAnswer {
		return text + ", never answered"
	}
	text += fmt.Sprintf(" at %s, after %v: %s", c.Server, (c.Answered - c.Sent).Round(time.Microsecond), c.Outcome)
	switch {
	case c.Hold != nil:
		text += fmt.Sprintf(", hold %s is %s, token %d/%d, %v left", c.Hold.ID, c.Hold.State, c.Hold.Token.Epoch, c.Hold.Token.Sequence, c.Hold.Remaining)
	case c.Sale != nil:
		text += fmt.Sprintf(", hold %s is sold under order %s, token %d/%d", c.Sale.HoldID, c.Sale.Order, c.Sale.Token.Epoch, c.Sale.Token.Sequence)
	case c.Reason != "":
		text += ", " + string(c.Reason)
	}
	if c.Reason == SoldOut || c.Reason == AllHeld {
		text += fmt.Sprintf(" (%d sold, %d held of %d)", c.Numbers.Sold, c.Numbers.Held, c.Numbers.Capacity)
	}
	return text
}
