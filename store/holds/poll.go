package holds

import (
	"cmp"
	"context"
	"time"
)

// poll asks all of these at once and returns the answers, nil for those who gave none, and what one of those said instead:
// when all are in, when ctx is over, or a moment after enough have answered, so that one who is dead does not keep the
// others waiting.
func poll[S, A any](ctx context.Context, sources []S, enough int, ask func(context.Context, S) (*A, error)) ([]*A, error) {
	type reply struct {
		from   int
		answer *A
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, len(sources))
	for i, s := range sources {
		go func() {
			answer, err := ask(ctx, s)
			replies <- reply{i, answer, err}
		}()
	}
	answers := make([]*A, len(sources))
	var grace <-chan time.Time
	var failure error
	for got, good := 0, 0; got < len(sources); got++ {
		select {
		case r := <-replies:
			answers[r.from] = r.answer
			if r.err == nil {
				good++
			} else {
				failure = r.err
			}
		case <-grace:
			return answers, cmp.Or(failure, context.DeadlineExceeded)
		case <-ctx.Done():
			return answers, cmp.Or(failure, ctx.Err())
		}
		if good >= enough && grace == nil {
			timer := time.NewTimer(askGrace)
			defer timer.Stop()
			grace = timer.C
		}
	}
	return answers, failure
}
