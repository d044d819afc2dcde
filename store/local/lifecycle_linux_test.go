package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestServersEndWithKilledParent kills a process that has started both servers with SIGKILL, so that it can do nothing
// for them any more, and starts them again at once in the same folder.
func TestServersEndWithKilledParent(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused=%v", paused), func(t *testing.T) {
			t.Parallel()
			dir := storetest.StateDir(t)
			servers := runAndKillHelper(t, dir, paused)

			// No wait: the new servers do that for the old ones.
			r := storetest.NewRedis(t, local.RedisOptions{Dir: dir, Persist: true})
			if got, err := client(t, r).Get(t.Context(), "kept").Result(); got != "yes" {
				t.Errorf("Redis lost its data: got %q, %v", got, err)
			}
			p := storetest.NewPostgres(t, local.PostgresOptions{Dir: dir})
			if _, err := connect(t, p.URL("postgres")).Exec(t.Context(), "SELECT * FROM kept"); err != nil {
				t.Errorf("Postgres lost its data: %v", err)
			}
			storetest.Eventually(t, 10*time.Second, func() error {
				return errors.Join(gone(servers.RedisPID), gone(servers.PostgresPID))
			})
		})
	}
}

func runAndKillHelper(t *testing.T, dir string, paused bool) started {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+dir)
	if paused {
		cmd.Env = append(cmd.Env, pauseVariable+"=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }() // "signal: killed"
	defer func() { must(t, cmd.Process.Signal(syscall.SIGKILL)) }()
	var servers started
	must(t, json.NewDecoder(out).Decode(&servers))
	if gone(servers.RedisPID) == nil || gone(servers.PostgresPID) == nil {
		t.Fatal("the servers ended before their parent")
	}
	return servers
}

// TestServerOutlivesThread: the kernel sends the parent-death signal when the thread ends that started the child.
func TestServerOutlivesThread(t *testing.T) {
	t.Parallel()
	var r *local.Redis
	var err error
	thread := onEndingThread(func() { r, err = local.StartRedis(t.Context(), local.RedisOptions{}) })
	must(t, err)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	storetest.Eventually(t, 10*time.Second, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread)); err == nil {
			return fmt.Errorf("thread %d is still there", thread)
		}
		return nil
	})
	c := client(t, r)
	first, err := c.Time(t.Context()).Result()
	must(t, err)
	// A Redis acts on signals every 100 ms, so it has had its chance when its clock is that much further.
	storetest.Eventually(t, 10*time.Second, func() error {
		select {
		case <-r.Exited():
			t.Fatal("the server ended with the thread")
		default:
		}
		now, err := c.Time(t.Context()).Result()
		if err == nil && now.Sub(first) < 500*time.Millisecond {
			err = errors.New("the server's clock is not far enough yet")
		}
		return err
	})
}

// onEndingThread does the work on a thread that ends after it, and returns the thread's id.
func onEndingThread(work func()) int {
	thread := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			// But the first thread is only parked. While we hold it, another goroutine gets another one.
			thread <- onEndingThread(work)
			return
		}
		work()
		thread <- syscall.Gettid()
	}()
	return <-thread
}

func TestStateFolderInUse(t *testing.T) {
	t.Parallel()
	dir := storetest.StateDir(t)
	r := storetest.NewRedis(t, local.RedisOptions{Dir: dir})
	p := storetest.NewPostgres(t, local.PostgresOptions{Dir: dir}) // one of each may share it
	tests := []struct {
		name string
		pid  int
		err  error
	}{
		{"redis", r.PID(), second(local.StartRedis(t.Context(), local.RedisOptions{Dir: dir}))},
		{"postgres", p.PID(), second(local.StartPostgres(t.Context(), local.PostgresOptions{Dir: dir}))},
	}
	for _, test := range tests {
		if !errors.Is(test.err, local.ErrInUse) {
			t.Errorf("second %s: got %v, want ErrInUse", test.name, test.err)
			continue
		}
		wantText(t, test.err, dir, fmt.Sprintf("process %d", test.pid))
	}
	must(t, r.Stop(t.Context()))
	again, err := local.StartRedis(t.Context(), local.RedisOptions{Dir: dir})
	must(t, err)
	must(t, again.Close(t.Context()))
}

func second[T any](_ T, err error) error { return err }

// TestPostgresOfOthers: a server that somebody started by hand on the folder does not hold our lock.
func TestPostgresOfOthers(t *testing.T) {
	t.Parallel()
	dir := storetest.StateDir(t)
	p := storetest.NewPostgres(t, local.PostgresOptions{Dir: dir})
	must(t, os.Rename(dir+"/postgres.lock", dir+"/taken-away"))
	_, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: dir})
	if !errors.Is(err, local.ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	wantText(t, err, fmt.Sprint(p.PID()))
}

// TestStalePostmasterFile: after a crash its number may belong to anybody, and Postgres believes it if that is a
// process of its own user.
func TestStalePostmasterFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		pid  func(t *testing.T, as *syscall.Credential) int
	}{
		{"dead", func(*testing.T, *syscall.Credential) int { return 1 << 30 }},
		{"another program", sleeping},
		{"not waited for", deadPostgres},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPostgres(t, local.PostgresOptions{})
			path := p.Dir() + "/postgres/postmaster.pid"
			text, err := os.ReadFile(path)
			must(t, err)
			info, err := os.Stat(path)
			must(t, err)
			owner := info.Sys().(*syscall.Stat_t)
			pid := test.pid(t, &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid, NoSetGroups: os.Geteuid() != 0})
			old := len(fmt.Sprint(p.PID()))
			p.Kill()
			must(t, os.WriteFile(path, append(fmt.Appendf(nil, "%d", pid), text[old:]...), 0o600))
			must(t, p.Restart(t.Context()))
		})
	}
}

func sleeping(t *testing.T, as *syscall.Credential) int {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// deadPostgres returns the number of a process of that name that has ended and is still in the process table.
func deadPostgres(t *testing.T, as *syscall.Credential) int {
	t.Helper()
	program := storetest.StateDir(t) + "/postgres"
	must(t, os.Symlink("/bin/true", program))
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	storetest.Eventually(t, 10*time.Second, func() error { return gone(cmd.Process.Pid) })
	return cmd.Process.Pid
}

func TestRunsUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has privileges to lose")
	}
	r := storetest.NewRedis(t, local.RedisOptions{})
	p := storetest.NewPostgres(t, local.PostgresOptions{})
	for name, pid := range map[string]int{"redis": r.PID(), "postgres": p.PID()} {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		must(t, err)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 {
			t.Errorf("%s runs as root", name)
		}
	}
}

// TestOwnProcessGroup: a Ctrl-C at the terminal is for us alone, who may still need the servers.
func TestOwnProcessGroup(t *testing.T) {
	t.Parallel()
	for name, pid := range map[string]int{"redis": storetest.Redis(t).PID(), "postgres": storetest.Postgres(t).PID()} {
		group, err := syscall.Getpgid(pid)
		must(t, err)
		if group != pid {
			t.Errorf("%s is in process group %d, want its own, %d", name, group, pid)
		}
	}
}

func TestInstancesDoNotCollide(t *testing.T) {
	t.Parallel()
	const count = 4
	addrs := make(chan string, 2*count)
	for range count {
		go func() {
			r, err := local.StartRedis(t.Context(), local.RedisOptions{})
			if err != nil {
				t.Error(err)
				addrs <- ""
				return
			}
			t.Cleanup(func() { _ = r.Close(context.Background()) })
			addrs <- r.Addr()
		}()
	}
	seen := make(map[string]bool)
	for range count {
		addr := <-addrs
		if seen[addr] {
			t.Errorf("two servers at %q", addr)
		}
		seen[addr] = true
	}
	a, b := storetest.NewPostgres(t, local.PostgresOptions{}), storetest.NewPostgres(t, local.PostgresOptions{})
	if a.Addr() == b.Addr() || a.Dir() == b.Dir() {
		t.Errorf("two Postgres at %s and %s, in %s and %s", a.Addr(), b.Addr(), a.Dir(), b.Dir())
	}
}

// TestTwoAtOnceInOneFolder: exactly one gets it.
func TestTwoAtOnceInOneFolder(t *testing.T) {
	t.Parallel()
	dir := storetest.StateDir(t)
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			p, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: dir})
			if err == nil {
				t.Cleanup(func() { _ = p.Close(context.Background()) })
			}
			errs <- err
		}()
	}
	first, other := <-errs, <-errs
	if (first == nil) == (other == nil) || !errors.Is(errors.Join(first, other), local.ErrInUse) {
		t.Errorf("got %v and %v, want one success and one ErrInUse", first, other)
	}
}
