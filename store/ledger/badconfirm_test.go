package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-inventory/holdfast/store"
)

// observed is a ledger whose log and metrics the test reads.
type observed struct {
	*fixture
	log    *bytes.Buffer
	reader *metric.ManualReader
}

func setupObserved(t *testing.T, capacity int64) *observed {
	o := &observed{log: &bytes.Buffer{}, reader: metric.NewManualReader()}
	o.fixture = setup(t, capacity, func(opts *Options) {
		opts.Logger = slog.New(slog.NewJSONHandler(o.log, nil))
		opts.MeterProvider = metric.NewMeterProvider(metric.WithReader(o.reader))
	})
	return o
}

// violations is the counter by constraint.
func (o *observed) violations() map[string]int64 {
	o.t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(context.Background(), &all); err != nil {
		o.t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "holdfast.ledger.constraint_violations" {
				for _, p := range sum.DataPoints {
					name, _ := p.Attributes.Value("holdfast.constraint")
					if p.Value > 0 {
						got[name.AsString()] = p.Value
					}
				}
			}
		}
	}
	return got
}

// longText is text that does not compress.
func longText(n int) string {
	var text strings.Builder
	for text.Len() < n {
		text.WriteString(rand.Text())
	}
	return text.String()
}

// TestBadConfirmDoesNotSpoilTheGroup: the server refuses what one confirm would write. The others get their verdicts
// in their order of arrival, and the bad one alone an error, logged with what it was, and counted.
func TestBadConfirmDoesNotSpoilTheGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		bad        store.Confirm
		constraint string // empty: data that is no text
	}{
		{"negative quantity", order("bad", line(show, 9, -3)), "outcomes_quantity_valid"},
		{"no quantity", order("bad", line(show, 9, 0)), "outcomes_quantity_valid"},
		{"no order", order("", line(show, 9, 1)), "outcomes_sale_complete"},
		{"no buyer", order("bad", with(line(show, 9, 1), func(l *store.ConfirmLine) { l.BuyerID = "" })), "outcomes_sale_complete"},
		{"too long for an index", order(longText(9000), line(show, 9, 1)), ""},
		{"not UTF-8", order("bad\xff", line(show, 9, 1)), ""},
		{"a zero byte", order("bad", with(line(show, 9, 1), func(l *store.ConfirmLine) { l.RequestID = "a\x00b" })), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := setupObserved(t, 3)
			results := o.together(single(1, 1), single(2, 1), c.bad, single(3, 1), single(4, 1))
			for i, want := range []store.VerdictKind{sold, sold, 0, sold, refusedRoom} {
				if r := results[i]; want != 0 && (r.err != nil || r.verdicts[0].Kind != want) {
					t.Errorf("confirm %d: %+v, %v; want %v", i, r.verdicts, r.err, want)
				}
			}
			o.wantSold(3)
			err := results[2].err
			if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConstraint) != (c.constraint != "") {
				t.Errorf("bad confirm: %v", err)
			}
			got := o.violations()
			if c.constraint == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || got[c.constraint] != 1 {
				t.Errorf("counted %v, want one of %s", got, c.constraint)
			}
			var logged struct {
				Level, Constraint, Order string
				Line                     struct{ Hold string }
			}
			if err := json.Unmarshal([]byte(strings.TrimSpace(o.log.String())), &logged); err != nil {
				t.Fatalf("log: %v\n%s", err, o.log)
			}
			if logged.Level != "ERROR" || logged.Constraint != c.constraint || logged.Order != c.bad.OrderID ||
				logged.Line.Hold != c.bad.Lines[0].ID.String() {
				t.Errorf("logged %s", o.log)
			}
		})
	}
}

// TestDatabaseRefusesOnItsOwn: whatever the program decides, these writes do not get in.
func TestDatabaseRefusesOnItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, sql, constraint string }{
		{"oversold", `update allotments set sold = capacity + 1`, "allotments_never_oversold"},
		{"capacity below sold", `update allotments set capacity = sold - 1`, "allotments_never_oversold"},
		{"sold below 0", `update allotments set sold = -1`, "allotments_never_oversold"},
		{"more cancelled than sold", `update outcomes set cancelled_quantity = quantity + 1`, "outcomes_cancelled_valid"},
		{"less than nothing cancelled", `update outcomes set cancelled_quantity = -1`, "outcomes_cancelled_valid"},
		{"a second row of a hold", `insert into outcomes select * from outcomes limit 1`, "outcomes_pkey"},
		{"a second sale of an order", `insert into outcomes (hold_id, allotment_id, verdict, kind, buyer_id, request_id, order_id,
			quantity, held, cart, token_epoch, token_sequence, decided_at) select hold_id || 'x', allotment_id, verdict, kind, buyer_id,
			request_id, order_id, quantity, held, cart, token_epoch, token_sequence, decided_at from outcomes limit 1`, "outcomes_order_once"},
		{"a sale of no allotment", `update outcomes set allotment_id = 'nowhere', hold_id = 'nowhere.x'`, "outcomes_allotment_exists"},
		{"a hold of another allotment", `update outcomes set hold_id = 'other.x'`, "outcomes_hold_of_allotment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := setupObserved(t, 10)
			o.sell(1, 2)
			err := o.transact(t.Context(), o.requests, unit{
				read: func(*pgx.Batch) {}, decide: func() error { return nil },
				write: func(b *pgx.Batch) { b.Queue(c.sql) },
			})
			if !errors.Is(err, store.ErrConstraint) {
				t.Errorf("%v, want ErrConstraint", err)
			}
			if got := o.violations(); got[c.constraint] != 1 {
				t.Errorf("counted %v, want one of %s", got, c.constraint)
			}
		})
	}
}

// TestWritesMustDoWhatWasDecided: a program that took its decision without the lock, or wrongly, commits nothing.
func TestWritesMustDoWhatWasDecided(t *testing.T) {
	t.Parallel()
	o := setupObserved(t, 10)
	o.sell(1, 2)
	for _, c := range []struct {
		constraint string
		change     func(*settlement)
	}{
		{"allotments_never_oversold", func(s *settlement) { s.book.allotments[show].capacity = 1000 }},
		{"outcomes_pkey", func(s *settlement) { delete(s.book.outcomes, line(show, 1, 1).ID) }},
	} {
		confirms := []store.Confirm{order("new", line(show, 1, 1)), order("new2", line(show, 2, 50))}
		s := &settlement{confirms: confirms, mark: o.mark}
		err := o.transact(t.Context(), o.requests, unit{
			read:   s.read,
			decide: func() error { c.change(s); return s.decide() },
			write:  s.write,
		})
		if !errors.Is(err, store.ErrConstraint) || o.violations()[c.constraint] != 1 {
			t.Errorf("%s: %v, counted %v", c.constraint, err, o.violations())
		}
		o.wantSold(2)
		if n := o.number(`select count(*) from outcomes`); n != 1 {
			t.Errorf("%s: %d outcomes, want 1", c.constraint, n)
		}
	}
}
