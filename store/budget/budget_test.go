package budget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-inventory/holdfast/store/budget"
)

const time90 = 90 * time.Millisecond

// waits tells when and how the wait for ctx ends.
func waits(ctx context.Context, done <-chan struct{}) (time.Duration, error) {
	start := time.Now()
	err := budget.Wait(ctx, done)
	return time.Since(start), err
}

func TestBudgetEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(time90)
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		ctx := b.Context(t.Context(), began)
		if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(began.Add(time90)) {
			t.Errorf("deadline %v, want %v after the beginning", deadline, time90)
		}
		if ctx.Err() != nil {
			t.Errorf("ended at once: %v", ctx.Err())
		}
		took, err := waits(ctx, nil)
		if !errors.Is(err, context.DeadlineExceeded) || took < 80*time.Millisecond || took >= 82*time.Millisecond {
			t.Errorf("ended after %v with %v, want 80 to 82ms and DeadlineExceeded", took, err)
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("Err is %v", ctx.Err())
		}
		select {
		case <-ctx.Done():
		default:
			t.Error("Done is open after the end")
		}
	})
}

func TestDoneBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(time90)
		done := make(chan struct{})
		time.AfterFunc(30*time.Millisecond, func() { close(done) })
		if took, err := waits(b.Context(t.Context(), time.Now()), done); err != nil || took != 30*time.Millisecond {
			t.Errorf("waited %v, %v", took, err)
		}
		time.Sleep(time.Second) // the timer that nobody waits for ends, too
	})
}

func TestCallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(time90)
		caller, cancel := context.WithCancel(t.Context())
		ctx := b.Context(caller, time.Now())
		time.AfterFunc(30*time.Millisecond, cancel)
		took, err := waits(ctx, nil)
		if !errors.Is(err, context.Canceled) || !errors.Is(ctx.Err(), context.Canceled) || took != 30*time.Millisecond {
			t.Errorf("waited %v, %v, %v", took, err, ctx.Err())
		}
		time.Sleep(time.Second)
	})
}

// An ordinary context made of a call's ends with it, and with its caller.
func TestChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(time90)
		caller, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			child, stop := context.WithTimeout(b.Context(caller, time.Now()), time.Hour)
			took, err := waits(child, nil)
			if !errors.Is(err, context.DeadlineExceeded) || took != time90 {
				t.Errorf("a child waited %v, %v", took, err)
			}
			stop()
		}
		child, stop := context.WithTimeout(b.Context(caller, time.Now()), time.Hour)
		defer stop()
		time.AfterFunc(30*time.Millisecond, cancel)
		if took, err := waits(child, nil); !errors.Is(err, context.Canceled) || took != 30*time.Millisecond {
			t.Errorf("a child waited %v, %v", took, err)
		}
	})
}

func TestEarlierDeadlineOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		took, err := waits(budget.New(time90).Context(caller, time.Now()), nil)
		if !errors.Is(err, context.DeadlineExceeded) || took != 20*time.Millisecond {
			t.Errorf("waited %v, %v", took, err)
		}
	})
}

// Calls share timers, and each still ends within 2 ms of its own deadline, in whatever order they come.
func TestManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(time90)
		const calls = 1000
		late := make(chan time.Duration, calls)
		for n := range calls {
			time.Sleep(time.Duration(n%7) * 50 * time.Microsecond)
			began := time.Now().Add(-time.Duration(n*37%1000) * 20 * time.Microsecond)
			ctx := b.Context(t.Context(), began)
			go func() {
				if err := budget.Wait(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("call %d: %v", n, err)
				}
				late <- time.Since(began) - time90
			}()
		}
		for range calls {
			if l := <-late; l < 0 || l >= 2*time.Millisecond {
				t.Fatalf("a call ended %v after its deadline", l)
			}
		}
	})
}

// BenchmarkBudget compares with what a context with a timeout of its own takes.
func BenchmarkBudget(b *testing.B) {
	caller, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan struct{})
	close(done)
	b.Run("shared", func(b *testing.B) {
		b.ReportAllocs()
		shared := budget.New(time90)
		for b.Loop() {
			_ = budget.Wait(shared.Context(caller, time.Now()), done)
		}
	})
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(caller, time90)
			_ = budget.Wait(ctx, done)
			cancel()
		}
	})
}
