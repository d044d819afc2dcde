package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

const (
	createLimit = 30 * time.Second
	lead        = 100 * time.Millisecond // between the first reading of the stock and the first request
	readings    = 400                    // of the stock, while requests come
)

var (
	errBroken   = errors.New("a promise was broken")
	errNotKnown = errors.New("whether every promise was kept could not be found out")
	errNotBegun = errors.New("interrupted before the launch began: there is nothing to judge")
	errCut      = errors.New("interrupted: what had been sent was judged, not the whole launch")
)

// rehearsal is one run of a preset.
type rehearsal struct {
	*crowdSettings
	preset string
	plan   *load.Plan
	errOut io.Writer

	history history.History
	result  result.Result
	open    *load.Open
	books   *books.Books

	mu     sync.Mutex
	stocks []history.Stock
	phase  phase
}

// rehearse plays a preset, judges it, and prints what was found.
func rehearse(ctx context.Context, preset string, s *crowdSettings, out, errOut io.Writer) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent)) // the history grows all the time
	r := &rehearsal{crowdSettings: s, preset: preset, plan: load.NewPlan(s.crowd()), errOut: errOut}
	fmt.Fprintln(errOut, s.outlook(preset))
	r.result = result.Result{Preset: preset, Addresses: s.Addr, Settings: s.settings(), Started: time.Now()}
	if s.Noop {
		if err := r.measureNoop(ctx); err != nil {
			return beforeLoad(ctx, err)
		}
	}
	if err := r.play(ctx); err != nil {
		return beforeLoad(ctx, err)
	}
	err := r.tell(out)
	if r.result.Interrupted {
		err = errors.Join(err, errCut)
	}
	return err
}

// beforeLoad says of an error that came before anything was asked for whether an interrupt is its cause.
func beforeLoad(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errNotBegun
	}
	return err
}

// measureNoop sends the load to a server that decides nothing.
func (r *rehearsal) measureNoop(ctx context.Context) error {
	server, err := startNoop(int64(float64(r.Capacity) / (1 + r.Two)))
	if err != nil {
		return err
	}
	defer func() { _ = server.stop() }() // it has been used
	crowd := r.crowd()
	crowd.Completion = 0
	open := &load.Open{
		Plan: load.NewPlan(crowd), Allotment: "launch-noop", Addresses: []string{server.address}, Connections: r.Connections, Start: time.Now(),
	}
	if err := open.Connect(ctx); err != nil {
		return err
	}
	watch := machine.NewWatch(map[string]int{"server": server.command.Process.Pid})
	n := &result.Noop{}
	begin := open.Now() + lead
	usage := r.usage(watch, open, begin)
	stop := r.showProgress("no-op", open)
	calls := open.Run(ctx, begin)
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.Usage = usage()
	n.Rates = result.RatesOf(calls, begin, r.Duration, r.Requests)
	n.Decisions, n.Late = result.Decisions(calls), result.Late(calls)
	r.result.Noop = n
	return nil
}

// usage reads what is used while requests are sent, from begin on.
func (r *rehearsal) usage(watch *machine.Watch, open *load.Open, begin time.Duration) func() machine.Usage {
	var before, after machine.Reading
	var reading sync.WaitGroup
	reading.Go(func() {
		time.Sleep(begin - open.Now())
		before = watch.Read()
		time.Sleep(begin + r.Duration - open.Now())
		after = watch.Read()
	})
	return func() machine.Usage {
		reading.Wait()
		return after.Since(before)
	}
}

// play opens the sale, sends the load, and judges it by the server's books when it is over.
func (r *rehearsal) play(ctx context.Context) error {
	credentials, access, err := r.enter()
	if err != nil {
		return err
	}
	start := time.Now()
	r.open = &load.Open{
		Plan: r.plan, Allotment: allotmentID(r.preset), Addresses: r.Addr, Access: access, Connections: r.Connections, Retries: r.Retries, Start: start,
	}
	r.result.Allotment, r.result.Started = r.open.Allotment, start
	b, err := books.Open(r.Addr[0], r.AdminAddr, r.open.Allotment, r.open.Now, credentials.DialOptions()...)
	if err != nil {
		return err
	}
	defer b.Close()
	r.books = b
	if err := r.open.Connect(ctx); err != nil { // first, since it fails at once where nothing listens
		return unreachable(err)
	}
	if err := r.create(ctx); err != nil {
		return err
	}
	stopProgress := r.showProgress(r.preset, r.open)
	r.send(ctx)
	r.result.Interrupted = ctx.Err() != nil
	err = r.readBooks(ctx)
	r.judge()
	stopProgress()
	if err != nil {
		fmt.Fprintln(r.errOut, "launch:", err) // the verdict says so, too
	}
	return nil
}

// create opens the sale, if this caller may sell, and every server sells of it.
func (r *rehearsal) create(ctx context.Context) error {
	creating, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	if err := r.books.MaySell(creating); err != nil {
		return err
	}
	err := r.books.Create(creating, r.Capacity, r.scaled())
	if err != nil && r.AdminAddr != "" {
		err = fmt.Errorf("--admin-addr %s: %w", r.AdminAddr, err)
	}
	if err == nil {
		err = r.knownEverywhere(creating, r.books)
	}
	if errors.Is(err, books.ErrOtherStores) {
		err = errors.Join(err, retire(ctx, r.books, []string{r.books.Allotment}))
	}
	return err
}

// send sends the load while the stock is read, and waits until what was not paid for has lapsed.
func (r *rehearsal) send(ctx context.Context) {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watcher sync.WaitGroup
	every := min(max(r.Duration/readings, 20*time.Millisecond), time.Second)
	watcher.Go(func() { r.books.Watch(watching, every, r.note) })

	begin := r.open.Now() + lead
	sent := time.AfterFunc(lead+r.Duration, func() { r.begin(paying) })
	usage := r.usage(machine.NewWatch(r.watched()), r.open, begin)
	r.history = history.History{
		Allotment: r.open.Allotment, Capacity: r.Capacity, Window: r.scaled(), Buyer: r.plan.Buyer, Calls: r.open.Run(ctx, begin),
	}
	sent.Stop()
	r.begin(lapsing)
	r.waitForLapses(ctx)
	stopWatching()
	watcher.Wait()
	if ctx.Err() == nil {
		r.result.Usage = usage()
	}
	r.history.Stocks = r.stocks
	r.result.Rates = result.RatesOf(r.history.Calls, begin, r.Duration, r.Requests)
	r.result.Reconnects = r.open.Reconnects()
}

func (r *rehearsal) note(s history.Stock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stocks = append(r.stocks, s)
}

func (r *rehearsal) lastStock() *history.Stock {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stocks) == 0 {
		return nil
	}
	return &r.stocks[len(r.stocks)-1]
}

// allotmentID names an allotment that nobody else has.
func allotmentID(preset string) string {
	return fmt.Sprintf("launch-%s-%s-%s", preset, time.Now().UTC().Format("20060102-150405"), strings.ToLower(rand.Text()[:6]))
}
