package prometheus

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/store/local"
)

const dashboardFile = "../chart/files/dashboard.json"

// dashboard is what the tests need of Grafana's format.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  struct{ UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, RefID string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// runbookLink finds the parts of the runbook that a text leads to.
var runbookLink = regexp.MustCompile(`\]\(https://[^)]*/docs/runbook\.md#([^)]*)\)`)

// TestDashboardIsWhole: it can be imported anywhere: its data source is a variable, and panels do not overlap. Each says what it
// shows, and leads only to parts of the runbook that there are.
func TestDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	parts := map[string]bool{}
	for name := range alertRules(t) {
		parts[strings.ToLower(name)] = true
	}
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 || variables["datasource"] != "datasource" || variables["job"] != "query" {
		t.Errorf("dashboard %q (%s), schema %d, variables %v", d.Title, d.UID, d.SchemaVersion, variables)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d is another panel's", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("%s does not fit beside %q at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && (p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) {
			t.Errorf("%s: data source %q, %d queries", p.Title, p.Datasource.UID, len(p.Targets))
		}
		if p.Type != "row" && p.Description == "" {
			t.Errorf("%s has no description", p.Title)
		}
		for _, link := range runbookLink.FindAllStringSubmatch(p.Description, -1) {
			if !parts[link[1]] {
				t.Errorf("%s leads to %q, of which the runbook knows nothing", p.Title, link[1])
			}
		}
	}
}

// TestRehearsal: while a launch is rehearsed, every query of the dashboard returns data, and no alert fires.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	g := newStage(t, world.Settings{Redis: local.RedisOptions{ExtraArgs: []string{"--maxmemory", "1gb"}}}) // as the runbook asks for
	s := newServer(t)
	s.every = 500 * time.Millisecond
	launch := exec.CommandContext(t.Context(), filepath.Join(programs, "launch"), "onsale", "--addr", g.Servers[0].Addr(),
		"--requests", "6000", "--duration", "6s", "--capacity", "600", "--window", "20s")
	output := &strings.Builder{}
	launch.Stdout, launch.Stderr = output, output
	s.step(g.scraped())
	if err := launch.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- launch.Wait() }()
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	hot := map[string]bool{}
	for running := true; running; {
		select {
		case err := <-ended:
			if running = false; err != nil {
				t.Errorf("launch: %v\n%s", err, output)
			}
		case <-tick.C:
		}
		found := g.scraped()
		for _, v := range found {
			if id := v.labels.Get("holdfast_allotment"); id != "" {
				hot[id] = true
			}
		}
		s.step(found)
	}
	if len(hot) == 0 {
		t.Error("the allotment that is sold is not among the hottest")
	}
	for alert, annotations := range s.fired {
		t.Errorf("%s fired: %s", alert, annotations["summary"])
	}
	for _, p := range readDashboard(t).Panels {
		s.shown(p)
	}
}

// shown is what a panel shows now: numbers, for each of its queries.
func (s *server) shown(p panel) (all promql.Vector) {
	s.t.Helper()
	for _, target := range p.Targets {
		found, err := s.query(filled(target.Expr))
		if err != nil || len(found) == 0 {
			s.t.Errorf("%s, %s: %d series, %v: %s", p.Title, target.RefID, len(found), err, target.Expr)
		}
		for _, v := range found {
			if v.F != v.F {
				s.t.Errorf("%s, %s: not a number for %s: %s", p.Title, target.RefID, v.Metric, target.Expr)
			}
		}
		all = append(all, found...)
	}
	return all
}

// shows wants the panels of these titles to show a number above least, after what was scraped.
func (g *stage) shows(least float64, titles []string, scrapes ...samples) {
	g.t.Helper()
	s := newServer(g.t)
	for _, found := range scrapes {
		s.step(found)
	}
	seen := map[string]bool{}
	for _, p := range readDashboard(g.t).Panels {
		if !slices.Contains(titles, p.Title) {
			continue
		}
		seen[p.Title] = true
		found := s.shown(p)
		if !slices.ContainsFunc(found, func(v promql.Sample) bool { return v.F > least }) {
			g.t.Errorf("%s shows %v, want something above %v", p.Title, found, least)
		}
	}
	if len(seen) != len(titles) {
		g.t.Errorf("of the panels %v the dashboard has %v", titles, seen)
	}
}

// TestDashboardOfSeveralServers plays made-up series to panels: what each server tells is counted once, and what is wrong is shown
// when servers are new, cut off or gone.
func TestDashboardOfSeveralServers(t *testing.T) {
	t.Parallel()
	const jumps, other = `holdfast_redis_clock_jumps_total`, `holdfast_ledger_constraint_violations_total{holdfast_constraint="other"}`
	rose := append(make([]float64, 20), 1)
	for _, test := range []struct {
		name, panel string
		lines       []line
		want        float64 // the most that the panel shows
	}{
		{"no server", "Servers ready", nil, 0},
		{"no server is left", "Reach Redis", nil, 0},
		{"one of two is cut off", "Reach Redis", []line{
			{`holdfast_store_up{holdfast_store="redis"}`, []float64{1}}, {`holdfast_store_up{holdfast_store="redis",instance="two"}`, []float64{0}},
		}, 0.5},
		{"no violation", "Constraint violations", []line{{violations, []float64{0}}}, 0},
		{"a violation", "Constraint violations", []line{{violations, rose}}, 1},
		{"violations of a constraint that was not known before", "Constraint violations", []line{{violations, []float64{0}}, {other, []float64{2}}}, 2},
		{"a jump that two servers saw", "What should never be", []line{
			{jumps, rose}, {jumps + `{instance="two"}`, rose}, {"holdfast_adopt_ended_holds_total", []float64{0}}, {"holdfast_adopt_rewinds_total", []float64{0}},
			{"holdfast_redis_evicted_keys_total", []float64{0}}, {"holdfast_redis_unfit_settings", []float64{0}}, {"holdfast_panics_total", []float64{0}},
		}, 1},
		{"the fuller of two pools", "Connections to Postgres", []line{
			{"pgxpool_acquired_connections", []float64{5}}, {`pgxpool_acquired_connections{instance="two"}`, []float64{7}},
			{"pgxpool_max_connections", []float64{8}}, {`pgxpool_max_connections{instance="two"}`, []float64{8}},
		}, 8},
		{"calls while none is in trouble", "Calls in trouble", []line{{`holdfast_decisions_total{holdfast_outcome="OK"}`, rise(10)}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			for scrapeNo := range 30 {
				s.step(at(test.lines, scrapeNo))
			}
			most := math.Inf(-1)
			for _, p := range readDashboard(t).Panels {
				if p.Title == test.panel {
					for _, v := range s.shown(p) {
						most = max(most, v.F)
					}
				}
			}
			if math.Abs(most-test.want) > 0.1 { // increase() extrapolates
				t.Errorf("%s shows %v, want %v", test.panel, most, test.want)
			}
		})
	}
}

// filled is an expression with Grafana's variables filled in.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$__range", "30m", "$job", ".*").Replace(expr)
}
