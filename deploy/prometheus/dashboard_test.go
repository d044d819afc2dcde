package prometheus

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
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
	ID         int
	Type       string
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr, RefID string }
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

// TestDashboardIsWhole: it can be imported anywhere: its data source is a variable, and panels do not overlap.
func TestDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
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
	}
}

// TestRehearsal: while a launch is rehearsed, every query of the dashboard returns data, and no alert fires.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	g := newStage(t, world.Settings{})
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
		for _, target := range p.Targets {
			found, err := s.query(filled(target.Expr))
			if err != nil || len(found) == 0 {
				t.Errorf("%s, %s: %d series, %v: %s", p.Title, target.RefID, len(found), err, target.Expr)
			}
			for _, v := range found {
				if v.F != v.F {
					t.Errorf("%s, %s: not a number for %s: %s", p.Title, target.RefID, v.Metric, target.Expr)
				}
			}
		}
	}
}

// filled is an expression with Grafana's variables filled in.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$__range", "30m", "$job", ".*").Replace(expr)
}
