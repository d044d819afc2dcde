package world

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Vitals are what a server's /metrics says of itself.
type Vitals struct {
	Goroutines, Files, HeapMiB float64
	ClockJumps                 float64 // of Redis's clock, that it raised an alarm for
}

const scrapeLimit = 2 * time.Second

// Vitals reads a server's metrics.
func (s *Server) Vitals(ctx context.Context) (Vitals, error) {
	var v Vitals
	ctx, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTPAddr()+"/metrics", http.NoBody)
	if err != nil {
		return v, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return v, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return v, fmt.Errorf("metrics: %w", err)
	}
	for name, family := range families {
		var sum float64
		for _, m := range family.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		switch name {
		case "go_goroutines":
			v.Goroutines = sum
		case "process_open_fds":
			v.Files = sum
		case "go_memstats_heap_inuse_bytes":
			v.HeapMiB = sum / (1 << 20)
		case "holdfast_redis_clock_jumps_total":
			v.ClockJumps = sum
		}
	}
	return v, nil
}
