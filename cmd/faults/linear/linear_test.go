package linear

import (
	"testing"
	"time"
)

func call(kind Kind, outcome Outcome, buyer int, sent, answered time.Duration) Call {
	return Call{Client: buyer, Kind: kind, Outcome: outcome, Buyer: buyer, Quantity: 1, Sent: sent, Answered: answered}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	var crowd []Call
	for i := range 30 {
		crowd = append(crowd, call(Create, Unknown, i, time.Duration(i), 0))
	}
	crowd = append(crowd, call(Create, Done, 30, 40, 41), call(Create, Done, 31, 42, 43))
	for _, test := range []struct {
		name  string
		calls []Call
		limit time.Duration
		want  Verdict
	}{
		{"the second is refused", []Call{call(Create, Done, 0, 0, 1), call(Create, Refused, 1, 2, 3)}, minute, Linearizable},
		{"two have the one unit", []Call{call(Create, Done, 0, 0, 1), call(Create, Done, 1, 2, 3)}, minute, Not},
		{"refused while it was free", []Call{call(Create, Refused, 0, 0, 1), call(Create, Done, 1, 2, 3)}, minute, Not},
		{"refused while another call was under way", []Call{call(Create, Refused, 0, 0, 2), call(Create, Done, 1, 1, 3)}, minute, Linearizable},
		{"an unknown one may have it", []Call{call(Create, Unknown, 0, 0, 0), call(Create, Refused, 1, 2, 3)}, minute, Linearizable},
		{"it came back", []Call{call(Create, Done, 0, 0, 1), call(Cancel, Done, 0, 2, 3), call(Create, Done, 1, 4, 5)}, minute, Linearizable},
		{"sold, and it came back", []Call{call(Create, Done, 0, 0, 1), call(Confirm, Done, 0, 2, 3), call(Create, Done, 1, 4, 5)}, minute, Not},
		{"a live hold that cannot be confirmed", []Call{call(Create, Done, 0, 0, 1), call(Confirm, Refused, 0, 2, 3)}, minute, Not},
		{"no time", crowd, time.Nanosecond, NotChecked},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := Check(1, 32, test.calls, test.limit); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
