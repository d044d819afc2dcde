package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// watching is a watch that runs in the background.
type watching struct {
	out, errOut *storetest.Log
	interrupt   context.CancelFunc
	ended       chan error
}

func (f *fake) watched(t *testing.T, line string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{out: &storetest.Log{}, errOut: &storetest.Log{}, interrupt: cancel, ended: make(chan error, 1)}
	command := parse(t, f.serve(t), line)
	go func() { w.ended <- command.Run(ctx, w.out, w.errOut) }()
	t.Cleanup(cancel)
	return w
}

func sends(all ...*pb.Availability) func(grpc.ServerStreamingServer[pb.WatchAvailabilityResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.WatchAvailabilityResponse]) error {
		for _, a := range all {
			if err := stream.Send(&pb.WatchAvailabilityResponse{Availability: a}); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
}

// TestWatchLines: without a terminal there is one line for each change, and an interrupt is no error.
func TestWatchLines(t *testing.T) {
	again := numbers("a", 5, 3)
	again.ReadTime = at(1)
	f := &fake{watch: sends(numbers("a", 5, 3), again, numbers("b", 10, 0), numbers("a", 4, 4))}
	for name, line := range map[string]string{"watch-lines": "watch a b", "watch-lines-json": "watch a b --json"} {
		w := f.watched(t, line)
		last := "sold=4"
		if strings.HasSuffix(line, "json") {
			last = `"sold":"4"`
		}
		until(t, w.out, last)
		w.interrupt()
		if err := <-w.ended; err != nil {
			t.Errorf("interrupted: %v", err)
		}
		golden(t, name, w.out.String())
	}
}

// TestWatchIsOpenedAgain: a server that stops is not the end of a watch, and what did not change meanwhile is not told again.
func TestWatchIsOpenedAgain(t *testing.T) {
	f := &fake{}
	f.watch = func(stream grpc.ServerStreamingServer[pb.WatchAvailabilityResponse]) error {
		if len(f.all()) == 1 {
			if err := stream.Send(&pb.WatchAvailabilityResponse{Availability: numbers("a", 5, 3)}); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "the server stops")
		}
		return sends(numbers("a", 5, 3), numbers("a", 0, 3))(stream)
	}
	w := f.watched(t, "watch a")
	until(t, w.out, "available=0")
	if got := w.out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(w.errOut.String(), "opened again: UNAVAILABLE: the server stops") {
		t.Errorf("told:\n%s%s", got, w.errOut)
	}
}

// TestWatchEnds: where nothing is to be seen, the watch says so and ends.
func TestWatchEnds(t *testing.T) {
	for code, calls := range map[codes.Code]int{codes.NotFound: 1, codes.Unimplemented: 1, codes.Unavailable: triesAtFirst} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			f := &fake{fail: func(int) error { return status.Error(code, "no") }}
			w := f.watched(t, "watch a")
			if err := <-w.ended; err == nil || len(f.all()) != calls {
				t.Errorf("after %d calls: %v", len(f.all()), err)
			}
		})
	}
}

// TestWatchOfAll: without ids it is all allotments.
func TestWatchOfAll(t *testing.T) {
	f := &fake{watch: sends(numbers("a", 5, 3))}
	w := f.watched(t, "watch")
	until(t, w.out, "sold=3")
	if asked, ok := f.all()[1].(*pb.WatchAvailabilityRequest); !ok || fmt.Sprint(asked.GetAllotmentIds()) != "[a]" {
		t.Errorf("asked for %v", f.all()[1])
	}
}

// TestScreen: what was drawn is replaced in place, cut to the size of the terminal.
func TestScreen(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var out strings.Builder
	s := &screen{out: &out, size: func() (int, int, error) { return 60, 5, nil }}
	v := newView([]string{"a", "b", "c"})
	draw := func(after time.Duration) {
		t.Helper()
		if err := s.draw(v, start.Add(after)); err != nil {
			t.Fatal(err)
		}
		out.WriteString("----\n")
	}
	draw(0)
	v.note(numbers("a", 5, 3), start)
	v.note(numbers("b", 10, 0), start)
	draw(time.Second)
	v.note(numbers("a", 1, 7), start.Add(2*time.Second))
	v.trouble = errors.New("UNAVAILABLE: the server stops\n  what to do: wait")
	draw(2 * time.Second)
	s.size = func() (int, int, error) { return 0, 0, errors.New("no size") }
	draw(50 * time.Second)
	golden(t, "screen", strings.ReplaceAll(out.String(), "\x1b", "ESC"))
}

// TestRate: of the last ten seconds, or of as many as there were.
func TestRate(t *testing.T) {
	start := time.Now()
	v := newView([]string{"a"})
	for _, step := range []struct {
		after time.Duration
		sold  int64
		want  string
	}{
		{0, 100, "-"}, {500 * time.Millisecond, 110, "-"}, {2 * time.Second, 120, "10.0/s"}, {5 * time.Second, 150, "10.0/s"},
		{12 * time.Second, 150, "3.0/s"}, {15 * time.Second, 150, "0.0/s"}, {16 * time.Second, 130, "-2.0/s"}, {60 * time.Second, 130, "0.0/s"},
	} {
		now := start.Add(step.after)
		v.note(numbers("a", 0, step.sold), now)
		if got := v.seen["a"].rate(now); got != step.want {
			t.Errorf("after %v: %s, want %s", step.after, got, step.want)
		}
	}
	if kept := len(v.seen["a"].sold); kept > 2 {
		t.Errorf("%d old numbers are kept", kept)
	}
}
