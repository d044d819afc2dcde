package holds

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store/seldom"
)

// rejectionOther is any refusal that is not among the known ones, such as a script that failed.
const rejectionOther = "OTHER"

// rejectionUnacknowledged is not Redis's word: fewer replicas than the durability asks for have what was written.
const rejectionUnacknowledged = "UNACKNOWLEDGED"

// rejectionKinds are the words that a Redis begins its answer with when it refuses to work, and two of ours.
func rejectionKinds() []string {
	return []string{
		"OOM", "MISCONF", "NOREPLICAS", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOPERM", "NOAUTH", "WRONGPASS", rejectionUnacknowledged,
		rejectionOther,
	}
}

// rejections counts and tells what Redis refuses.
type rejections struct {
	calls  metric.Int64Counter
	kinds  map[string]metric.MeasurementOption
	told   seldom.Line
	failed seldom.Line // scripts
}

func (r *rejections) measure(meter metric.Meter) (err error) {
	r.calls, err = meter.Int64Counter("holdfast.redis.rejections", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that Redis answered with a refusal to work, by the word that it gave for it. It may be up all the same."))
	if err != nil {
		return err
	}
	r.kinds = map[string]metric.MeasurementOption{}
	for _, kind := range rejectionKinds() {
		r.kinds[kind] = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.rejection", kind)))
		r.calls.Add(context.Background(), 0, r.kinds[kind]) // an alarm on its rise needs to know it before
	}
	return nil
}

// rejectionOf is the kind of a refusal to work; empty: the server did not answer, or what it said only means that the call is
// to be made again, or elsewhere.
func rejectionOf(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) || errors.Is(err, redis.Nil) || refused(err, "NOSCRIPT", "MOVED", "ASK", "TRYAGAIN") {
		return ""
	}
	kind, _, _ := strings.Cut(answer.Error(), " ")
	if !slices.Contains(rejectionKinds(), kind) {
		return rejectionOther
	}
	return kind
}

// report counts a refusal, and logs what Redis said. No call of ours is meant to be refused for what it is: ERR and WRONGTYPE
// are a fault of a script, or a command that this Redis or its user's rules do not have. Broken connections are the health
// probe's to report.
func (s *Store) report(n *node, call string, err error) {
	kind := rejectionOf(err)
	if kind == "" {
		return
	}
	if refused(err, "ERR", "WRONGTYPE") {
		s.rejected.calls.Add(context.Background(), 1, s.rejected.kinds[kind])
		s.rejected.failed.Log(s.log, slog.LevelError, time.Now(), "a script failed", rejectionFacts(n, call, err)...)
		return
	}
	s.tell(n, call, kind, err)
}

// tell counts a refusal of a known kind, and logs why.
func (s *Store) tell(n *node, call, kind string, err error) {
	s.rejected.calls.Add(context.Background(), 1, s.rejected.kinds[kind])
	s.rejected.told.Log(s.log, slog.LevelError, time.Now(), "Redis refuses calls", append(rejectionFacts(n, call, err), slog.String("reason", kind))...)
}

func rejectionFacts(n *node, call string, err error) []slog.Attr {
	return []slog.Attr{slog.String("script", call), slog.String("redis", n.addr), slog.Any("error", err)}
}
