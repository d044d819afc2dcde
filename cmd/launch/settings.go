package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/output"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

// target is where the load goes.
type target struct {
	Addr        []string `name:"addr" default:"127.0.0.1:50051" placeholder:"HOST:PORT,..." help:"Where Holdfast serves; several are used in turn."`
	AdminAddr   string   `name:"admin-addr" placeholder:"HOST:PORT" help:"Where operators' calls (AdminService) are answered, if elsewhere."`
	Connections int      `name:"connections" default:"4" placeholder:"N" help:"Connections in all."`
	ServerPID   int      `name:"server-pid" placeholder:"PID" help:"Process of the server, to read its CPU time on this machine."`
	RedisPID    int      `name:"redis-pid" placeholder:"PID" help:"Process of its Redis, likewise."`
	Seed        uint64   `name:"seed" default:"1" placeholder:"N" help:"Where the random numbers start: who asks for how many, who pays, and when."`
}

func (t *target) check() error {
	var all []error
	for _, address := range t.Addr {
		all = append(all, checkAddress("addr", address))
	}
	if t.AdminAddr != "" {
		all = append(all, checkAddress("admin-addr", t.AdminAddr))
	}
	if t.Connections < 1 || t.Connections > 1000 {
		all = append(all, errors.New("--connections must be from 1 to 1000"))
	}
	return errors.Join(all...)
}

func checkAddress(name, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("--%s is %q, must be HOST:PORT", name, address)
	}
	return nil
}

// watched are the processes whose CPU time is read.
func (t *target) watched() map[string]int {
	pids := map[string]int{}
	if t.ServerPID > 0 {
		pids["server"] = t.ServerPID
	}
	if t.RedisPID > 0 {
		pids["redis"] = t.RedisPID
	}
	return pids
}

// crowdSettings is who comes. Each preset has defaults of its own.
type crowdSettings struct {
	target `embed:""`

	Requests   int           `name:"requests" default:"${requests}" placeholder:"N" help:"Requests for holds."`
	Duration   time.Duration `name:"duration" default:"${duration}" placeholder:"DURATION" help:"Time that they come in, at a fixed rate whether or not answers come."`
	Capacity   int64         `name:"capacity" default:"${capacity}" placeholder:"N" help:"Units for sale."`
	Window     time.Duration `name:"window" default:"120s" placeholder:"DURATION" help:"How long a hold lasts, and buyers take their time to pay."`
	TimeScale  float64       `name:"time-scale" default:"0.1" placeholder:"X" help:"Makes the window that many times as long, so that a rehearsal does not take as long as life."`
	Two        float64       `name:"two" default:"0.4" placeholder:"SHARE" help:"Share of buyers who want two units; the others want one."`
	Repeat     float64       `name:"repeat" default:"0.02" placeholder:"SHARE" help:"Share of requests that are a buyer's earlier one, sent again with the same ids."`
	Completion float64       `name:"completion" default:"0.65" placeholder:"SHARE" help:"Share of holds that are paid for; the others lapse."`
	Retries    int           `name:"retries" default:"3" placeholder:"N" help:"How often a request that met trouble is repeated with the same ids."`
	Lapses     bool          `name:"lapses" default:"true" negatable:"" help:"Wait in the end until what was not paid for has lapsed."`
	Noop       bool          `name:"noop" help:"First send the same load to a server of this program that decides nothing, to compare with."`
	JSON       string        `name:"json" placeholder:"FILE" help:"Write everything that was found there, too."`
	Report     string        `name:"report" placeholder:"FILE.html" help:"Write a page with charts there."`
}

// Validate is called by kong when the command line has been read.
func (s *crowdSettings) Validate() error {
	all := []error{s.check()}
	wrong := func(is bool, text string) {
		if is {
			all = append(all, errors.New(text))
		}
	}
	wrong(s.Requests < 1 || s.Requests > 10_000_000, "--requests must be from 1 to 10,000,000")
	wrong(s.Duration < time.Millisecond || s.Duration > 24*time.Hour, "--duration must be from 1ms to 24h")
	wrong(s.Capacity < 1 || s.Capacity > 1_000_000_000, "--capacity must be from 1 to 1,000,000,000")
	wrong(s.scaled() < time.Second || s.scaled() > 24*time.Hour, "--window times --time-scale must be from 1s to 24h")
	wrong(s.Retries < 0 || s.Retries > 100, "--retries must be from 0 to 100")
	for _, share := range []struct {
		name  string
		value float64
	}{{"two", s.Two}, {"repeat", s.Repeat}, {"completion", s.Completion}} {
		wrong(!(share.value >= 0 && share.value <= 1), "--"+share.name+" must be from 0 to 1") // NaN is neither
	}
	all = append(all, output.Check("--json", s.JSON), output.Check("--report", s.Report))
	return errors.Join(all...)
}

// scaled is how long a hold really lasts.
func (s *crowdSettings) scaled() time.Duration {
	return time.Duration(float64(s.Window) * s.TimeScale).Round(time.Millisecond)
}

func (s *crowdSettings) crowd() load.Crowd {
	return load.Crowd{
		Requests: s.Requests, Duration: s.Duration, Two: s.Two, Repeat: s.Repeat, Completion: s.Completion, Window: s.scaled(), Seed: s.Seed,
	}
}

func (s *crowdSettings) settings() result.Settings {
	return result.Settings{
		Requests: s.Requests, Seconds: s.Duration.Seconds(), Capacity: s.Capacity, Window: s.scaled().Seconds(), TimeScale: s.TimeScale,
		Two: s.Two, Repeat: s.Repeat, Completion: s.Completion, Retries: s.Retries, Connections: s.Connections, Seed: s.Seed,
	}
}
