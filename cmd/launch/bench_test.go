package main

import (
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

// BenchmarkOpenLoop sends the launch's 20,000 requests a second to a server that decides nothing. What counts is what the
// generator uses: cpu-us/request, and cores, of which it may need one at most. Take -benchtime 100000x or more: the CPU
// time is read in hundredths of a second.
func BenchmarkOpenLoop(b *testing.B) {
	b.Setenv(asLaunch, "1")
	server, err := startNoop(100)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.stop() }() // it has been used
	crowd := load.Crowd{Requests: b.N, Duration: time.Duration(b.N) * 50 * time.Microsecond, Two: 0.4, Repeat: 0.02, Seed: 1}
	open := &load.Open{
		Plan: load.NewPlan(crowd), Allotment: "launch-bench", Addresses: []string{server.address}, Connections: 4, Start: time.Now(),
	}
	if err := open.Connect(b.Context()); err != nil {
		b.Fatal(err)
	}
	watch := machine.NewWatch(nil)
	before := watch.Read()
	b.ResetTimer()
	begin := open.Now()
	calls := open.Run(b.Context(), begin)
	usage := watch.Read().Since(before)
	rates := result.RatesOf(calls, begin, crowd.Duration, b.N)
	b.ReportMetric(float64(usage.CPU[machine.Self].Microseconds())/float64(b.N), "cpu-us/request")
	b.ReportMetric(usage.CPU[machine.Self].Seconds()/usage.Took.Seconds(), "cores")
	b.ReportMetric(100*rates.Decided/rates.Offered, "%decided")
	b.ReportMetric(result.Decisions(calls).P99, "p99-ms")
	b.ReportMetric(result.Late(calls).P99, "late-p99-ms")
}
