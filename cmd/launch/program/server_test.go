package program

import (
	"strings"
	"testing"
	"time"
)

func TestServerLogWaitsForBothLines(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hello\n{\"msg\":\"serving\",\"grpc\":\"127.0.0.1:7\",\"http\":\"x\"}\n{\"msg\":\"ready\"}\n{\"msg\":\"ready\"}\n",
		"{\"msg\":\"ready\"}\n{\"msg\":\"serving\",\"grpc\":\"127.0.0.1:7\"}\n",
	} {
		l := newServerLog()
		for _, piece := range strings.SplitAfter(text, ":") { // lines come in pieces
			if _, err := l.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-l.ready:
		case <-time.After(10 * time.Second):
			t.Fatalf("not ready after\n%s", l.tail())
		}
		if l.grpc != "127.0.0.1:7" || !strings.Contains(l.tail(), "serving") {
			t.Errorf("address %q, tail\n%s", l.grpc, l.tail())
		}
	}
}

func TestOnlyShippedSettingsAreMeasured(t *testing.T) {
	t.Parallel()
	got := withoutSettings([]string{"PATH=/bin", "HOLDFAST_RETENTION=1m", "GOMAXPROCS=2"})
	if strings.Join(got, " ") != "PATH=/bin GOMAXPROCS=2" {
		t.Errorf("left: %s", got)
	}
}
