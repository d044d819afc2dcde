package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-inventory/holdfast/server"
	"github.com/holdfast-inventory/holdfast/server/auth"
)

const (
	confirmPatience = 5 * time.Second // for confirms whose callers have been answered or cut off
	loopPatience    = 3 * time.Second
	headerTimeout   = 5 * time.Second
	scrapeTimeout   = time.Minute // longer than any scrape takes, and than is between two of most
)

// appOptions is what an App needs.
type appOptions struct {
	grpcAddr, adminAddr, httpAddr string
	drainDelay, stopTimeout       time.Duration
	buyers                        server.BuyerLimit
	access                        accessSettings
	log                           *slog.Logger
	// open opens the stores and joins the use cases with them. It may take its time, but not to wait for an outage.
	open func(ctx context.Context, i instruments) (*backend, error)
}

// App is the service in one process. End-to-end tests start it as main does, on port 0.
type App struct {
	options appOptions
	log     *slog.Logger

	telemetry         *server.Telemetry
	backend           *backend
	server            *server.Server
	grpc, admin, http net.Listener // admin: nil unless it is separate

	failed   chan error // of what runs in the background
	cleanups []cleanup
}

// cleanup undoes one step of the start.
type cleanup struct {
	what string
	do   func(ctx context.Context) error
}

func newApp(o appOptions) *App {
	return &App{options: o, log: o.log, failed: make(chan error, 4)}
}

// runUntil runs the app until ctx is done or a part of it fails.
func (a *App) runUntil(ctx context.Context) error {
	if err := a.Run(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	return a.wait(ctx)
}

// unlessStopped forgets what a signal to stop made of a start.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// wait waits until ctx is done or a part of the running app fails, and stops it.
func (a *App) wait(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
		a.log.Info("stopping")
	case err = <-a.failed:
	}
	return errors.Join(err, a.Close()) //nolint:contextcheck // stopping has its own time
}

// Run starts the service and returns when it takes calls. If it can't, everything is undone. ctx is for the start
// alone: Close stops the service.
func (a *App) Run(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close()) //nolint:contextcheck // stopping has its own time
		}
	}()
	if err := a.listen(ctx); err != nil {
		return err
	}
	if a.telemetry, err = server.NewTelemetry(ctx, version, a.log); err != nil {
		return err
	}
	a.later("telemetry", func(ctx context.Context) error {
		a.telemetry.Close(ctx)
		return nil
	})
	i := instruments{log: a.log, meters: a.telemetry.Meters(), traces: a.telemetry.Tracers()}
	if a.backend, err = a.options.open(ctx, i); err != nil {
		return err
	}
	a.later("stores", a.backend.close)
	if err := a.checkSchema(ctx); err != nil {
		return err
	}
	options := server.Options{
		Checkouts: a.backend.checkouts, Operators: a.backend.operators,
		Logger: a.log, Meter: i.meters, Tracer: i.traces,
		DrainDelay: a.options.drainDelay, StopTimeout: a.options.stopTimeout, BuyerLimit: a.options.buyers,
		SeparateAdmin: a.admin != nil,
	}
	if err := a.guard(&options, i); err != nil {
		return err
	}
	if a.server, err = server.New(options); err != nil {
		return err
	}
	return a.start(i)
}

// guard sets who may call, and what follows the files that say so.
func (a *App) guard(o *server.Options, i instruments) error {
	access := a.options.access
	o.NoReflection = access.NoReflection
	if access.TLSCert != "" {
		certificates, err := auth.NewTLS(access.files(), a.log, i.meters.Meter("github.com/holdfast-inventory/holdfast/server/auth"))
		if err != nil {
			return &settingError{name: "tls-cert", err: err}
		}
		o.TLS = certificates.Credentials()
		a.background("certificates", certificates.Run)
	}
	if access.CallersFile == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.later("keys of tokens", func(context.Context) error {
		cancel()
		return nil
	})
	callers, err := access.callers(ctx, a.log)
	if err != nil {
		return err
	}
	o.Auth = callers
	a.background("callers", callers.Run)
	return nil
}

// start starts what runs in the background, the calls last.
func (a *App) start(i instruments) error {
	a.serveHTTP()
	a.later("confirms under way", a.drain)
	a.background("background work", a.backend.loops) // ends before: it claims confirms
	watch, err := newStoreWatch(a.backend.pings, i)
	if err != nil {
		return err
	}
	a.background("store watch", watch.run)
	audit, err := newSettingsAudit(a.backend.settings, i)
	if err != nil {
		return err
	}
	a.background("readiness", func(ctx context.Context) { a.becomeReady(ctx, audit) })
	if a.backend.broken != nil {
		a.background("private stores", func(ctx context.Context) {
			if err := a.backend.broken(ctx); err != nil {
				a.failed <- err
			}
		})
	}
	go func() {
		if err := a.server.Serve(a.grpc, a.admin); err != nil {
			a.failed <- err
		}
	}()
	a.later("calls", func(ctx context.Context) error {
		a.server.Stop(ctx)
		return nil
	})
	addresses := []any{"grpc", a.GRPCAddr(), "http", a.HTTPAddr()}
	if a.admin != nil {
		addresses = append(addresses, "admin", a.AdminAddr())
	}
	a.log.Info("serving", addresses...)
	return nil
}

func (a *App) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmPatience)
	defer cancel()
	return a.backend.drain(ctx)
}

// listen takes the addresses before anything else is done, so that those that are taken are told at once.
func (a *App) listen(ctx context.Context) error {
	var all []error
	for _, l := range []struct {
		name, address string
		listener      *net.Listener
	}{
		{"grpc-addr", a.options.grpcAddr, &a.grpc},
		{"admin-addr", a.options.adminAddr, &a.admin},
		{"http-addr", a.options.httpAddr, &a.http},
	} {
		if l.address == "" {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("another program listens at %s: choose another address, or port 0 for one that is free", l.address)
		}
		if err != nil {
			all = append(all, &settingError{name: l.name, err: err})
			continue
		}
		*l.listener = listener
		a.later(l.name, func(context.Context) error {
			if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
	}
	return errors.Join(all...)
}

func (a *App) serveHTTP() {
	probes := &http.Server{
		Handler:           server.Probes(a.telemetry.Metrics(), a.server.IsReady),
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      scrapeTimeout,
		IdleTimeout:       scrapeTimeout,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
	go func() {
		if err := probes.Serve(a.http); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("serve %s: %w", a.http.Addr(), err)
		}
	}()
	a.later("probes", func(context.Context) error { return probes.Close() })
}

// background runs do until Close, which waits for its end.
func (a *App) background(what string, do func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do(ctx)
	}()
	a.later(what, func(ctx context.Context) error {
		cancel()
		ctx, cancelWait := context.WithTimeout(ctx, loopPatience)
		defer cancelWait()
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("did not end within %v", loopPatience)
		}
	})
}

// later notes how to undo a step.
func (a *App) later(what string, do func(ctx context.Context) error) {
	a.cleanups = append(a.cleanups, cleanup{what: what, do: do})
}

// Close stops the service in the reverse order of its start. Every step is taken, even if one fails; each bounds
// its own time. A second call does nothing.
func (a *App) Close() error {
	var failures []error
	for _, c := range slices.Backward(a.cleanups) {
		if err := c.do(context.Background()); err != nil {
			failures = append(failures, fmt.Errorf("stop %s: %w", c.what, err))
		}
	}
	a.cleanups = nil
	return errors.Join(failures...)
}

// GRPCAddr is where gRPC listens.
func (a *App) GRPCAddr() string { return a.grpc.Addr().String() }

// AdminAddr is where operators' calls are answered.
func (a *App) AdminAddr() string {
	if a.admin == nil {
		return a.GRPCAddr()
	}
	return a.admin.Addr().String()
}

// HTTPAddr is where probes and metrics are.
func (a *App) HTTPAddr() string { return a.http.Addr().String() }
