package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	portAttempts  = 10
	startPatience = time.Minute      // a Postgres may have to recover first
	stopPatience  = 20 * time.Second // a Redis waits 10 s for slow replicas
)

// spec is what differs between the two servers.
type spec struct {
	name   string   // of its files
	binary string   // full path
	users  []string // to run as, under root
	env    []string // added to ours
	stop   syscall.Signal
	args   func(data string, port int) []string
	// prepare makes the data folder fit to start on; it runs under the folder's lock.
	prepare func(ctx context.Context, run runner) error
	// forget removes what a killed server left outside of its folder; it is called after the end.
	forget func()
	// ready returns nil once this very process answers.
	ready func(ctx context.Context, pid int) error
}

// runner runs a helper program to its end as the server would run: same user, same log, same lock.
type runner func(ctx context.Context, binary string, args ...string) error

// server is one private server process. Its methods may be called from any goroutine; one that changes
// the process waits for another to finish.
type server struct {
	spec   spec
	folder *folder
	logger *slog.Logger

	port int // fixed after the first start
	proc atomic.Pointer[process]

	mu       sync.Mutex // serialises start, stop, pause
	pause    *guard     // set while paused
	watchdog *guard     // set where the kernel does not tell children of our end
}

// Addr is the server's host:port. It stays the same over restarts.
func (s *server) Addr() string { return loopback(s.port) }

// PID is the process id of the server, or of its last process if it has ended.
func (s *server) PID() int { return s.proc.Load().pid() }

// Dir is the folder with the server's log and data. It may be another one than was asked for: see the package's
// comment.
func (s *server) Dir() string { return s.folder.dir }

// Exited is closed when the present process has ended, whoever ended it. A restart brings a new channel.
func (s *server) Exited() <-chan struct{} { return s.proc.Load().exited }

// open makes the folder and starts the server for the first time.
func (s *server) open(ctx context.Context, dir string, port int, logger *slog.Logger) error {
	if s.logger = logger; logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.folder, err = openFolder(ctx, dir, s.spec.name, s.spec.users); err != nil {
		return err
	}
	rotate(s.folder.log(s.spec.name))
	if s.port = port; port == 0 {
		err = s.startAnywhere(ctx, freePort)
	} else {
		err = s.start(ctx, false)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", s.spec.name, err), s.folder.remove())
	}
	s.logger.Info("private server started", "server", s.spec.name, "addr", s.Addr(), "pid", s.PID(), "dir", s.folder.dir)
	return nil
}

// startAnywhere starts on a port that pick returns, and on the next one if another process was faster.
func (s *server) startAnywhere(ctx context.Context, pick func() (int, error)) error {
	var last error
	for range portAttempts {
		port, err := pick()
		if err != nil {
			return err
		}
		s.port = port
		if last = s.start(ctx, false); !errors.Is(last, errPortTaken) {
			break
		}
	}
	return last
}

// start starts the process and waits until it answers. On failure nothing is left running.
func (s *server) start(ctx context.Context, restart bool) error {
	lock, err := s.folder.lock(ctx, s.spec.name, restart)
	if err != nil {
		return err
	}
	// The server has its own copy, so that the folder is free again when the last of its processes is gone.
	defer lock.Close()
	if err := s.folder.makeData(); err != nil {
		return err
	}
	log, err := openLog(s.folder.log(s.spec.name))
	if err != nil {
		return err
	}
	defer log.Close()
	if s.spec.prepare != nil {
		err := s.spec.prepare(ctx, func(ctx context.Context, binary string, args ...string) error {
			return runToEnd(ctx, s.command(log.File, lock, syscall.SIGKILL, binary, args...))
		})
		if err != nil {
			return log.explain(err)
		}
	}
	p, err := spawn(s.command(log.File, lock, s.spec.stop, s.spec.binary, s.spec.args(s.folder.data, s.port)...))
	if err != nil {
		return err
	}
	err = s.settle(ctx, p, lock)
	if err != nil {
		killTree(p)
		s.watchdog.dismiss()
		s.watchdog = nil
		return log.explain(err)
	}
	s.proc.Store(p)
	return nil
}

// settle waits until a started process answers.
func (s *server) settle(ctx context.Context, p *process, lock *os.File) error {
	if err := noteHolder(lock, p.pid()); err != nil {
		return err
	}
	if !ownDeathSignal {
		var err error
		if s.watchdog, err = startGuard(signalName(s.spec.stop), []int{p.pid()}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.exited:
			cancel() // no use in asking on
		case <-ctx.Done():
		}
	}()
	err := poll(ctx, startPatience, func() error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return s.spec.ready(ctx, p.pid())
	})
	if p.ended() {
		return fmt.Errorf("ended while starting: %w", cmp.Or(p.err, errors.New("exit status 0")))
	}
	return err
}

// command builds a child that runs as the server's user in the server's folder.
func (s *server) command(log, lock *os.File, atOurEnd syscall.Signal, binary string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.folder.dir // ours may be closed to the server's user
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = serverAttr(s.folder.as, atOurEnd)
	for _, entry := range os.Environ() {
		// PGDATA, PGPORT and their like are about a user's own server.
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	cmd.Env = append(cmd.Env, s.spec.env...)
	return cmd
}

// runToEnd runs a helper program.
func runToEnd(ctx context.Context, cmd *exec.Cmd) error {
	p, err := spawn(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		killTree(p)
		return ctx.Err()
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", cmd.Path, p.err)
	}
	return nil
}
