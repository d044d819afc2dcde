package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/caller"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/flags"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
)

// target is where the load goes.
type target struct {
	Addr      []string `name:"addr" default:"127.0.0.1:50051" placeholder:"HOST:PORT,..." help:"Where Holdfast serves; several, which must share their stores, are used in turn."`
	AdminAddr string   `name:"admin-addr" placeholder:"HOST:PORT" help:"Where operators' calls (AdminService) are answered, if elsewhere."`

	caller.Settings `embed:""`

	Connections int    `name:"connections" default:"4" placeholder:"N" help:"Connections in all."`
	ServerPID   int    `name:"server-pid" placeholder:"PID" help:"Process of the server, to read its CPU time on this machine."`
	RedisPID    int    `name:"redis-pid" placeholder:"PID" help:"Process of its Redis, likewise."`
	Seed        uint64 `name:"seed" default:"1" placeholder:"N" help:"Where the random numbers start: who asks for how many, who pays, and when."`
}

func (t *target) check() error {
	var all []error
	if len(t.Addr) == 0 {
		all = append(all, flags.Address("--addr", ""))
	}
	for _, address := range t.Addr {
		all = append(all, flags.Address("--addr", address))
	}
	if t.AdminAddr != "" {
		all = append(all, flags.Address("--admin-addr", t.AdminAddr))
	}
	for _, problem := range t.Settings.Problems(append([]string{t.AdminAddr}, t.Addr...)...) {
		all = append(all, errors.New(problem))
	}
	all = append(all, flags.Count("--connections", t.Connections, 1, 1000),
		flags.Process("--server-pid", t.ServerPID), flags.Process("--redis-pid", t.RedisPID))
	return errors.Join(all...)
}

// enter reads what the servers are to be shown.
func (t *target) enter() (*caller.Credentials, wire.Access, error) {
	c, err := t.Settings.Open()
	if err != nil {
		return nil, wire.Access{}, err
	}
	return c, wire.Access{TLS: c.TLS, Authorization: c.Authorization}, nil
}

// knownEverywhere says which address does not know what was created by way of the first, or of --admin-addr.
func (t *target) knownEverywhere(ctx context.Context, b *books.Books) error {
	if err := b.KnownAt(ctx, t.Addr[1:]); err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	return nil
}

// unreachable says that no connection was made.
func unreachable(err error) error {
	return fmt.Errorf("--addr: no Holdfast answers: %w; `make run` starts one", err)
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
	return errors.Join(s.check(),
		flags.Count("--requests", s.Requests, 1, 10_000_000),
		flags.Lasts("--duration", s.Duration, time.Millisecond, 24*time.Hour),
		s.checkRate(),
		flags.Count("--capacity", s.Capacity, 1, 1_000_000_000),
		flags.Lasts("--window", s.Window, time.Millisecond, 24*time.Hour),
		flags.Number("--time-scale", s.TimeScale, 0.000001, 1_000_000),
		s.checkScaled(),
		flags.Number("--two", s.Two, 0, 1),
		flags.Number("--repeat", s.Repeat, 0, 1),
		flags.Number("--completion", s.Completion, 0, 1),
		flags.Count("--retries", s.Retries, 0, 100),
		s.checkFiles(),
	)
}

// checkRate leaves a time that is wrong by itself to its own check.
func (s *crowdSettings) checkRate() error {
	const most = 1_000_000
	if rate := float64(s.Requests) / s.Duration.Seconds(); s.Duration > 0 && rate > most {
		return fmt.Errorf("--requests in --duration are %s a second, must be at most %s", figures.Count(rate), figures.Count(most))
	}
	return nil
}

// checkScaled checks what the server is asked for.
func (s *crowdSettings) checkScaled() error {
	return flags.Lasts("--window times --time-scale", s.scaled(), time.Second, 24*time.Hour)
}

func (s *crowdSettings) checkFiles() error {
	if s.JSON != "" && s.JSON == s.Report {
		return fmt.Errorf("--json and --report are both %q, must be two files", s.JSON)
	}
	return errors.Join(flags.File("--json", s.JSON), flags.File("--report", s.Report))
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
