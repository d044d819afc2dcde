package cases

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
)

const standalone = "standalone"

// servers are the faults of Holdfast's own processes.
func servers() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F01", Title: "app replica killed", Deployment: standalone,
				Fault:    "kill -9 of one of three servers while a confirm of it waits in the ledger, started again after 1 s (long: 2 s)",
				Expected: "the others go on; what it was confirming is ended",
			},
			Short: true, Random: true, Proof: []string{"killed", "confirms under way"}, Guards: []string{"claimed"}, Inject: killServer,
		},
		{
			Row: record.Row{
				Case: "F02", Title: "app killed at each crash point", Deployment: standalone,
				Fault:    "a server dies at a named point between two steps (short: two of five points)",
				Expected: "the recovery of that point completes it",
			},
			Proof: []string{"died at a point"}, Guards: []string{"claimed"}, Inject: crashServer,
		},
		{
			Row: record.Row{
				Case: "F03", Title: "app paused longer than hold and lease", Deployment: standalone,
				Fault:    "SIGSTOP of one of three servers for 5 s (long: 15 s) while a confirm of it waits in the ledger, holds last 2 s",
				Expected: "its late confirms are told what became of the holds; nothing is sold twice",
			},
			Random: true, Proof: []string{"paused", "confirms under way"}, Guards: []string{"outcome", "assumed-outcome"}, Inject: pauseServer,
		},
		{
			Row: record.Row{
				Case: "F04", Title: "app SIGTERM under load", Deployment: standalone,
				Fault:    "SIGTERM to one of three servers, with a health Watch open",
				Expected: "no outcome is lost; it ends within 15 s",
			},
			Random: true, Proof: []string{"stopped"}, Guards: []string{"streams", "stop-timeout"}, Inject: stopServer,
		},
	}
}

func killServer(ctx context.Context, s *Scene) error {
	victim := s.Victim()
	buyer, err := s.newQuitter(ctx)
	if err != nil {
		return err
	}
	healed := s.Fault("a server is killed", false)
	s.Silent(victim)
	err = buyer.confirmBehindLock(ctx, s, victim, func(int) error {
		victim.Kill()
		<-victim.Ended()
		s.Hit("killed", 1)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.Last(ctx, time.Second, 2*time.Second); err != nil {
		return err
	}
	if err := victim.Start(ctx); err != nil {
		return err
	}
	healed()
	return buyer.look(ctx, s)
}

// killedCode is the exit code of a program that died at a crash point.
const killedCode = 137

// crashServer lets a server run into one point after the other. That callers meet a point takes moments.
func crashServer(ctx context.Context, s *Scene) error {
	points := []string{
		"confirm-after-begin", "ledger-after-commit", "create-before-reply", "ledger-before-commit", "confirm-after-ledger",
	}
	if !s.Long {
		points = points[:2]
	}
	for _, point := range points {
		victim := s.Victim()
		if err := crashAt(ctx, s, victim, point); err != nil {
			return fmt.Errorf("%s: %w", point, err)
		}
	}
	return nil
}

func crashAt(ctx context.Context, s *Scene, victim *world.Server, point string) error {
	buyer, err := s.newQuitter(ctx)
	if err != nil {
		return err
	}
	healed := s.Fault("a server dies at "+point, false)
	s.Silent(victim)
	victim.Kill()
	<-victim.Ended()
	victim.Environment = []string{"HOLDFAST_FAILPOINT=" + point}
	err = victim.Start(ctx)
	victim.Environment = nil
	if err != nil {
		return err
	}
	if err := buyer.confirmOnce(ctx, victim); err != nil {
		return err
	}
	select {
	case <-victim.Ended():
	case <-time.After(10 * time.Second):
		return errors.New("callers did not lead a server to the point")
	case <-ctx.Done():
		return ctx.Err()
	}
	var exit *exec.ExitError
	if err := victim.Err(); !errors.As(err, &exit) || exit.ExitCode() != killedCode {
		return fmt.Errorf("the server ended otherwise: %w", err)
	}
	s.Hit("died at a point", 1)
	if err := victim.Start(ctx); err != nil {
		return err
	}
	healed()
	return buyer.look(ctx, s)
}

func pauseServer(ctx context.Context, s *Scene) error {
	victim := s.Victim()
	buyer, err := s.newQuitter(ctx)
	if err != nil {
		return err
	}
	healed := s.Fault("a server stands still", false)
	s.Silent(victim)
	err = buyer.confirmBehindLock(ctx, s, victim, func(int) error {
		s.Hit("paused", 1)
		return victim.Pause()
	})
	if err != nil {
		return err
	}
	if err := s.Last(ctx, 5*time.Second, 15*time.Second); err != nil {
		return err
	}
	if err := victim.Resume(); err != nil {
		return err
	}
	healed()
	return buyer.look(ctx, s)
}

// stopLimit is how long a server may take to end.
const stopLimit = 15 * time.Second

func stopServer(ctx context.Context, s *Scene) error {
	victim := s.Victim()
	conn, err := grpc.NewClient(victim.Callers.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if _, err := watch.Recv(); err != nil {
		return fmt.Errorf("watch health: %w", err)
	}
	healed := s.Fault("a server is told to stop", false)
	began := time.Now()
	if err := victim.Stop(2 * stopLimit); err != nil {
		s.Wrong("the server did not stop well: " + err.Error())
	}
	if took := time.Since(began); took > stopLimit {
		s.Wrong(fmt.Sprintf("the server took %v to stop, at most %v is asked for", took, stopLimit))
	}
	s.Hit("stopped", 1)
	s.Silent(victim)
	if err := victim.Start(ctx); err != nil {
		return err
	}
	healed()
	return nil
}
