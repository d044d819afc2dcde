package flags

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"--n is -5, must be from 1 to 10,000,000":                            Count("--n", -5, 1, 10_000_000),
		"--n is 10,000,001, must be from 1 to 10,000,000":                    Count[int64]("--n", 10_000_001, 1, 10_000_000),
		"--share is 1.01, must be from 0 to 1":                               Number("--share", 1.01, 0, 1),
		"--share is NaN, must be from 0 to 1":                                Number("--share", math.NaN(), 0, 1),
		"--share is +Inf, must be from 0.001 to 1":                           Number("--share", math.Inf(1), 0.001, 1),
		"--time is -1s, must be from 1ms to 24h":                             Lasts("--time", -time.Second, time.Millisecond, 24*time.Hour),
		"--time is 1h30m, must be from 10m to 1h":                            Lasts("--time", 90*time.Minute, 10*time.Minute, time.Hour),
		`--addr is "", must be HOST:PORT with a port from 1 to 65535`:        Address("--addr", ""),
		`--addr is "a", must be HOST:PORT with a port from 1 to 65535`:       Address("--addr", "a"),
		`--addr is "a:", must be HOST:PORT with a port from 1 to 65535`:      Address("--addr", "a:"),
		`--addr is "a:0", must be HOST:PORT with a port from 1 to 65535`:     Address("--addr", "a:0"),
		`--addr is "a:b", must be HOST:PORT with a port from 1 to 65535`:     Address("--addr", "a:b"),
		`--addr is "a:65536", must be HOST:PORT with a port from 1 to 65535`: Address("--addr", "a:65536"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestWhatIsRightIsTaken(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		Count("--n", 1, 1, 2), Count("--n", 2, 1, 2), Number("--share", 0, 0, 1), Number("--share", 1, 0, 1),
		Lasts("--time", time.Hour, time.Second, time.Hour), Address("--addr", "a:1"), Address("--addr", "[::1]:65535"), Address("--addr", ":50051"),
		Process("--pid", 0), Process("--pid", os.Getpid()), File("--json", ""), File("--json", t.TempDir()+"/x"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}
