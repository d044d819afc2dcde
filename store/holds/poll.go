package holds

import (
	"context"
	"time"
)

// poll asks all of these at once and returns the answers, nil for those who gave none: when all are in, when ctx is
// over, or a moment after enough have answered, so that one who is dead does not keep the others waiting.
func poll[S, A any](ctx context.Context, sources []S, enough int, ask func(context.Context, S) *A) []*A {
	type reply struct {
		from   int
		answer *A
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, len(sources))
	for i, s := range sources {
		go func() { replies <- reply{i, ask(ctx, s)} }()
	}
	answers := make([]*A, len(sources))
	var grace <-chan time.Time
	for got, good := 0, 0; got < len(sources); got++ {
		select {
		case r := <-replies:
			answers[r.from] = r.answer
			if r.answer != nil {
				good++
			}
		case <-grace:
			return answers
		case <-ctx.Done():
			return answers
		}
		if good >= enough && grace == nil {
			timer := time.NewTimer(askGrace)
			defer timer.Stop()
			grace = timer.C
		}
	}
	return answers
}
