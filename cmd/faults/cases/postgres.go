package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// postgres are the faults of Postgres and of the way to it.
func postgres() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F26", Title: "Postgres backend killed", Deployment: standalone,
				Fault:    "kill -9 of a session whose confirm waits for a row, twice (long: 5 times), which makes Postgres recover",
				Expected: "unknown outcomes are resolved by the outcome row",
			},
			Random: true, Proof: []string{"sessions killed", "confirms under way", "trouble"}, Guards: []string{"claimed"}, Inject: killBackend,
		},
		{
			Row: record.Row{
				Case: "F27", Title: "Postgres killed", Deployment: standalone,
				Fault:    "kill -9 of Postgres and all its sessions, started again after 2 s (long: 10 s)",
				Expected: "holds are decided as before; confirms wait in CONFIRMING, do not lapse, and are ended after its return",
			},
			Short: true, Random: true, Proof: []string{"killed", "decided meanwhile", "trouble"}, Guards: []string{"pin", "release"}, Check: countDecisions,
			Inject: func(ctx context.Context, s *Scene) error {
				return stopPostgres(ctx, s, func(context.Context) error {
					s.Postgres.Kill()
					s.Hit("killed", 1)
					return nil
				})
			},
		},
		{
			Row: record.Row{
				Case: "F27-fast", Title: "Postgres stopped", Deployment: standalone,
				Fault:    "Postgres stopped (fast), started again after 2 s (long: 10 s)",
				Expected: "as F27",
			},
			Random: true, Proof: []string{"stopped", "decided meanwhile", "trouble"}, Guards: []string{"claimed"}, Check: countDecisions,
			Inject: func(ctx context.Context, s *Scene) error {
				return stopPostgres(ctx, s, func(ctx context.Context) error {
					s.Hit("stopped", 1)
					return s.Postgres.Stop(ctx)
				})
			},
		},
		{
			Row: record.Row{
				Case: "F28", Title: "Postgres frozen", Deployment: standalone,
				Fault:    "SIGSTOP of Postgres and all its sessions for 3 s (long: 15 s)",
				Expected: "confirms time out; what is applied late meets the outcome row; holds are decided as before",
			},
			Short: true, Random: true, Proof: []string{"frozen", "decided meanwhile", "trouble"}, Guards: []string{"claimed"}, Check: countDecisions, Inject: pausePostgres,
		},
		{
			Row: record.Row{
				Case: "F29", Title: "COMMIT reply lost", Deployment: standalone,
				Fault:    "every server's connections to Postgres end when it answers, for 200 ms, 3 times (long: 20)",
				Expected: "the sale is found by its hold's id; there is one",
			},
			Short: true, Random: true, Proof: []string{"links cut", "trouble"}, Guards: []string{"outcome", "assumed-outcome"}, Inject: loseCommits,
		},
		{
			Row: record.Row{
				Case: "F30", Title: "partitioned with a statement queued behind a lock", Deployment: standalone,
				Fault:    "outcomes locked, a server's link to Postgres a black hole, the lock released after 600 ms, 2 times (long: 10)",
				Expected: "a late row or none, never both",
			},
			Random: true, Proof: []string{"statements behind the lock", "trouble"}, Guards: []string{"outcome", "assumed-outcome"}, Inject: queueBehindLock,
		},
		{
			Row: record.Row{
				Case: "F31", Title: "allotment row locked by someone", Deployment: standalone,
				Fault:    "SELECT .. FOR UPDATE of the allotment, held for 3 s (long: 10 s)",
				Expected: "confirms are UNAVAILABLE soon; connections stay; holds are decided as before",
			},
			Short: true, Random: true, Proof: []string{"locked", "decided meanwhile", "trouble"}, Guards: []string{"pin", "release"}, Check: countDecisions, Inject: lockRow,
		},
		{
			Row: record.Row{
				Case: "F32", Title: "Postgres turns read-only", Deployment: standalone,
				Fault:    "ALTER SYSTEM default_transaction_read_only, for 2 s (long: 10 s)",
				Expected: "confirms are UNAVAILABLE; connections are made anew; recovery",
			},
			Random: true, Proof: []string{"read-only", "decided meanwhile", "trouble"}, Guards: []string{"claimed"}, Check: countDecisions, Inject: readOnly,
		},
		{
			Row: record.Row{
				Case: "F33", Title: "Postgres restored to the past", Deployment: standalone,
				Fault:    "Postgres replaced by its files of 1.5 s before",
				Expected: "alarm, the allotment is paused; no silent refill",
			},
			Proof: []string{"restored", "paused"}, Guards: []string{"lost-sales"}, Inject: restorePostgres,
			// What was sold before the restore and is not any more contradicts what callers are told afterwards.
			Forgive: []string{
				"ledger has no sale of it", "and it is CANCELLED", "is cancelled", "not any more", "refused with PAUSED", "available, though at least",
				"though at most", "refused with HOLD_CANCELLED, for which there was no cause", "the hold is sold, which nobody asked for",
			},
			Prepare: func(*world.Settings) {},
		},
		{
			Row: record.Row{
				Case: "F34", Title: "max_connections exhausted", Deployment: standalone,
				Fault:    "every free session taken and the servers' ended, for 2 s (long: 10 s)",
				Expected: "confirms are UNAVAILABLE soon; holds are decided as before",
			},
			Random: true, Proof: []string{"sessions taken", "decided meanwhile", "trouble"}, Guards: []string{"claimed"}, Check: countDecisions, Inject: takeSessions,
		},
	}
}

// countDecisions counts the requests for holds that were decided while the fault lasted.
func countDecisions(s *Scene, h *history.History) {
	decided := 0
	for _, c := range h.Calls {
		if c.Kind == history.CreateHold && (c.Outcome == history.Done || c.Outcome == history.Refused) && within(h.Faults, c.Sent) &&
			within(h.Faults, c.Answered) {
			decided++
		}
	}
	s.Hit("decided meanwhile", decided)
}

// serversSessions selects the process ids of the servers' sessions.
const serversSessions = `select pid from pg_stat_activity where datname = 'holdfast'
	and application_name <> '` + world.ApplicationName + `' and backend_type = 'client backend'`

func killBackend(ctx context.Context, s *Scene) error {
	times := 2
	if s.Long {
		times = 5
	}
	healed := s.Fault("a session of Postgres is killed", false)
	for range times {
		buyer, err := s.newQuitter(ctx)
		if err != nil {
			return err
		}
		err = buyer.confirmBehindLock(ctx, s, s.Victim(), func(waiting int) error {
			s.Hit("sessions killed", 1)
			return exec.Command("kill", "-KILL", fmt.Sprint(waiting)).Run()
		})
		if err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		if err := buyer.look(ctx, s); err != nil {
			return err
		}
	}
	healed()
	return nil
}

func stopPostgres(ctx context.Context, s *Scene, stop func(context.Context) error) error {
	healed := s.Fault("Postgres is down", false)
	if err := stop(ctx); err != nil {
		return err
	}
	if err := s.Last(ctx, 2*time.Second, 10*time.Second); err != nil {
		return err
	}
	if err := s.Postgres.Restart(ctx); err != nil {
		return err
	}
	healed()
	return nil
}

func pausePostgres(ctx context.Context, s *Scene) error {
	healed := s.Fault("Postgres stands still", false)
	if err := s.Postgres.Pause(); err != nil {
		return err
	}
	s.Hit("frozen", 1)
	if err := s.Last(ctx, 3*time.Second, 15*time.Second); err != nil {
		return err
	}
	s.Postgres.Resume()
	healed()
	return nil
}

func loseCommits(ctx context.Context, s *Scene) error {
	times := 3
	if s.Long {
		times = 20
	}
	healed := s.Fault("replies of Postgres are lost", false)
	for range times {
		for _, server := range s.Servers {
			if err := server.ToPostgres.LoseAnswers(); err != nil {
				return err
			}
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		for _, server := range s.Servers {
			s.Hit("links cut", 1)
			if err := server.ToPostgres.Heal(); err != nil {
				return err
			}
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	return nil
}

func queueBehindLock(ctx context.Context, s *Scene) error {
	times := 2
	if s.Long {
		times = 10
	}
	healed := s.Fault("statements wait behind a lock, and nobody hears of them", false)
	for range times {
		if err := queueOnce(ctx, s, s.Victim()); err != nil {
			return err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	return nil
}

func queueOnce(ctx context.Context, s *Scene, victim *world.Server) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "lock table outcomes in exclusive mode"); err != nil {
		return err
	}
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	var waiting int
	err = tx.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = 'holdfast' and wait_event_type = 'Lock'").Scan(&waiting)
	if err != nil {
		return err
	}
	s.Hit("statements behind the lock", waiting)
	if err := victim.ToPostgres.BlackHole(); err != nil {
		return err
	}
	if err := pause(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	if err := pause(ctx, 200*time.Millisecond); err != nil {
		return err
	}
	return victim.ToPostgres.Heal()
}

func lockRow(ctx context.Context, s *Scene) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	healed := s.Fault("the allotment's row is locked", false)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "select 1 from allotments where id = $1 for update", s.Allotment); err != nil {
		return err
	}
	s.Hit("locked", 1)
	if err := s.Last(ctx, 3*time.Second, 10*time.Second); err != nil {
		return err
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	healed()
	return nil
}

func readOnly(ctx context.Context, s *Scene) error {
	set := func(value string) error {
		conn, err := s.Connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for _, statement := range []string{
			"set default_transaction_read_only = off", "alter system set default_transaction_read_only = " + value, "select pg_reload_conf()",
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	}
	healed := s.Fault("Postgres is read-only", false)
	if err := set("on"); err != nil {
		return err
	}
	s.Hit("read-only", 1)
	if err := s.Last(ctx, 2*time.Second, 10*time.Second); err != nil {
		return err
	}
	if err := set("off"); err != nil {
		return err
	}
	healed()
	return nil
}

// restorePostgres puts back the files that Postgres had a moment before: what was sold since is not in them.
func restorePostgres(ctx context.Context, s *Scene) error {
	data := filepath.Join(s.Postgres.Dir(), "postgres")
	backup := data + ".backup"
	defer os.RemoveAll(backup)
	healed := s.Fault("Postgres is restored to the past", false)
	if err := s.Postgres.Stop(ctx); err != nil {
		return err
	}
	if output, err := exec.Command("cp", "-a", data, backup).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, output)
	}
	if err := s.Postgres.Restart(ctx); err != nil {
		return err
	}
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return err
	}
	if err := s.Postgres.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.Rename(backup, data); err != nil {
		return err
	}
	if err := s.Postgres.Restart(ctx); err != nil {
		return err
	}
	s.Hit("restored", 1)
	healed()
	return s.paused(ctx)
}

const (
	statePaused = 2
	alarmLimit  = 20 * time.Second // the supervisor adopts when a difference has stood for 10 s
)

// paused waits until the allotment is paused, for an operator to look at.
func (s *Scene) paused(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < alarmLimit; {
		conn, err := s.Connect(ctx)
		if err != nil {
			return err
		}
		state := 0
		err = conn.QueryRow(ctx, "select state from allotments where id = $1", s.Allotment).Scan(&state)
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			return err
		}
		if state == statePaused {
			s.Hit("paused", 1)
			return nil
		}
		if err := pause(ctx, 4*readEvery); err != nil {
			return err
		}
	}
	s.Wrong(fmt.Sprintf("the allotment was not paused within %v of the restore", alarmLimit))
	return nil
}

// takeLimit bounds a race with servers who connect as soon as they have lost a session.
const takeLimit = 10 * time.Second

func takeSessions(ctx context.Context, s *Scene) error {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(context.WithoutCancel(ctx)) // nothing is to be lost
		}
	}()
	healed := s.Fault("every session of Postgres is taken", false)
	first, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	taken = append(taken, first)
	for theirs, began := 1, s.now(); theirs > 0; {
		for {
			conn, err := s.Connect(ctx)
			if err != nil {
				break // there is none left
			}
			taken = append(taken, conn)
		}
		if s.now()-began > takeLimit {
			return fmt.Errorf("servers still have %d sessions of Postgres after %v", theirs, takeLimit)
		}
		err := first.QueryRow(ctx, "select count(pg_terminate_backend(pid)) from ("+serversSessions+") as session").Scan(&theirs)
		if err != nil {
			return err
		}
	}
	s.Hit("sessions taken", len(taken))
	if err := s.Last(ctx, 2*time.Second, 10*time.Second); err != nil {
		return err
	}
	for _, conn := range taken {
		if err := conn.Close(ctx); err != nil {
			return err
		}
	}
	taken = nil
	healed()
	return nil
}
