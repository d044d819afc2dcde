package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
)

const (
	replicaCount    = 4
	replicaPatience = 5 * time.Second // to end when nothing is asked of it any more
)

// job is what a replica is asked to do.
type job struct {
	PostgresURL    string // for the first one
	Conns, Callers int
	Demand         demand
	Number, Of     int   // which requests are its own
	Start          int64 // of the clock
}

// done is what it answers.
type done struct {
	Answers []answer
	Error   string
}

// replicas is a service of several processes, each with a mutex of its own around read, check and write.
type replicas struct {
	all      []*replica
	db       *pgxpool.Pool // for the stock and the books
	settings *Command
	url      string
	clock    clock
	rows     *rows // not asked
	killed   atomic.Bool
}

// replica is one process, which takes jobs at its standard input, one after the other.
type replica struct {
	*program.Child
	jobs    io.WriteCloser
	results *json.Decoder
}

func openReplicas(ctx context.Context, e *env) (_ shop, err error) {
	db, err := openPool(ctx, e.stores.postgresURL, 1)
	if err != nil {
		return nil, err
	}
	s := &replicas{db: db, settings: e.settings, url: e.stores.postgresURL, clock: e.clock, rows: &rows{db: db}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for range replicaCount {
		r, err := startReplica()
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, r)
	}
	return s, nil
}

func startReplica() (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "compare", "--replica")
	cmd.Stderr = os.Stderr
	jobs, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	results, out, err := os.Pipe() // not StdoutPipe: its end is closed by Wait, which runs all the time
	if err != nil {
		return nil, err
	}
	cmd.Stdout = out
	c, err := program.Start(cmd)
	out.Close()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return &replica{Child: c, jobs: jobs, results: json.NewDecoder(results)}, nil
}

func (s *replicas) restock(ctx context.Context, capacity int64) error {
	s.rows.capacity = capacity
	return restock(ctx, s.db, capacity)
}

func (s *replicas) ask(ctx context.Context, d demand) ([]answer, error) {
	defer context.AfterFunc(ctx, s.kill)()
	var mu sync.Mutex
	var answers []answer
	var asked errgroup.Group
	for i, r := range s.all {
		asked.Go(func() error {
			mine, err := r.do(job{
				PostgresURL: s.url, Conns: max(1, s.settings.Conns/replicaCount), Callers: max(1, s.settings.Workers/replicaCount),
				Demand: d, Number: i, Of: len(s.all), Start: s.clock.nanos(),
			})
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, mine...)
			return err
		})
	}
	err := asked.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answers, err
}

func (r *replica) do(j job) ([]answer, error) {
	if err := json.NewEncoder(r.jobs).Encode(j); err != nil {
		return nil, fmt.Errorf("replica %d: %w", j.Number, err)
	}
	var d done
	if err := r.results.Decode(&d); err != nil {
		return nil, fmt.Errorf("replica %d has ended: %w", j.Number, err)
	}
	if d.Error != "" {
		return nil, fmt.Errorf("replica %d: %s", j.Number, d.Error)
	}
	return d.Answers, nil
}

func (s *replicas) audit(ctx context.Context, t tally) (string, error) { return s.rows.audit(ctx, t) }

func (s *replicas) close() error {
	s.db.Close()
	return s.end()
}

// kill ends them in the middle of a job.
func (s *replicas) kill() {
	s.killed.Store(true)
	for _, r := range s.all {
		r.Kill()
	}
}

// end ends the processes: each ends when its input does.
func (s *replicas) end() error {
	var failures []error
	for _, r := range s.all {
		_ = r.jobs.Close() // it may have ended
	}
	for _, r := range s.all {
		failures = append(failures, r.Wait(replicaPatience))
	}
	if s.killed.Load() {
		return nil
	}
	return errors.Join(failures...)
}

// runReplica is such a process. It does what it is told at in until that ends.
func runReplica(ctx context.Context, in io.Reader, out io.Writer) error {
	var db *pgxpool.Pool
	jobs, results := json.NewDecoder(in), json.NewEncoder(out)
	mutex := &sync.Mutex{}
	for {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a job: %w", err)
		}
		if db == nil {
			var err error
			if db, err = openPool(ctx, j.PostgresURL, j.Conns); err != nil {
				return err
			}
			defer db.Close()
		}
		if err := results.Encode(j.do(ctx, db, mutex)); err != nil {
			return fmt.Errorf("write a result: %w", err)
		}
	}
}

// do holds the mutex from the read to the write, and it works: with one replica nothing is oversold. But it keeps out only
// the callers of its own process.
func (j job) do(ctx context.Context, db *pgxpool.Pool, mutex *sync.Mutex) done {
	mine := share(j.Demand.draw(), j.Number, j.Of)
	answers, err := play(ctx, mine, j.Callers, clockOf(j.Start), func(ctx context.Context, r request) (bool, error) {
		mutex.Lock()
		defer mutex.Unlock()
		return readCheckWrite(ctx, db, r)
	})
	if err != nil {
		return done{Error: err.Error()}
	}
	return done{Answers: answers}
}
