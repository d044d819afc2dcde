package local

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFindNewestAndComplete(t *testing.T) {
	t.Setenv("PATH", "")
	root := t.TempDir()
	for _, path := range []string{"9/bin/postgres", "9/bin/initdb", "15/bin/postgres", "15/bin/initdb", "16/bin/postgres"} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	folders := []string{root + "/*/bin"}
	// 16 is newer and has no initdb; 9 would be the last by name.
	if got, want := find(folders, "postgres", "initdb"), root+"/15/bin/postgres"; version15(got) != version15(want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := find(folders, "redis-server"); got != "" {
		t.Errorf("found %q, want nothing", got)
	}
}

// version15 drops what differs between a path and the real one: a temporary folder behind a link.
func version15(path string) string { return filepath.Base(filepath.Dir(filepath.Dir(path))) }

func TestNotInstalledNamesTheCommand(t *testing.T) {
	err := notInstalled("redis-server", redisFolders, "redis-server", "redis")
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "install redis") {
		t.Errorf("got %v, want ErrNotInstalled with an install command", err)
	}
}

// TestPortLostBeforeBind: between our look at a port and the server's bind another process may take it.
func TestPortLostBeforeBind(t *testing.T) {
	t.Parallel()
	lost, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lost.Close()
	lostPort := lost.Addr().(*net.TCPAddr).Port

	if _, err := StartRedis(t.Context(), RedisOptions{Port: lostPort}); !errors.Is(err, errPortTaken) {
		t.Errorf("Redis on a taken port: got %v, want errPortTaken", err)
	}
	if _, err := StartPostgres(t.Context(), PostgresOptions{Port: lostPort}); !errors.Is(err, errPortTaken) {
		t.Errorf("Postgres on a taken port: got %v, want errPortTaken", err)
	}

	r, err := StartRedis(t.Context(), RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, r) })
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ports := []int{lostPort, lostPort, r.port}
	err = r.startAnywhere(t.Context(), func() (int, error) {
		port := ports[0]
		ports = ports[1:]
		return port, nil
	})
	if err != nil || len(ports) != 0 {
		t.Errorf("after two lost ports: %v, ports left %v", err, ports)
	}
}

func closeNow(t *testing.T, r *Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestGuard stands for systems without a parent-death signal: closing the pipe is what our end does.
func TestGuard(t *testing.T) {
	t.Parallel()
	if _, err := startGuard("TERM", []int{startSleep(t).pid()}); err != nil {
		t.Fatal(err)
	}
	sent, kept := startSleep(t), startSleep(t)
	g, err := startGuard(signalName(syscall.SIGTERM), []int{sent.pid()})
	if err != nil {
		t.Fatal(err)
	}
	dismissed, err := startGuard(signalName(syscall.SIGTERM), []int{kept.pid()})
	if err != nil {
		t.Fatal(err)
	}
	dismissed.dismiss()
	if err := g.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sent.exited:
	case <-time.After(10 * time.Second):
		t.Error("the guard sent nothing")
	}
	if kept.ended() {
		t.Error("a dismissed guard sent its signal")
	}
}

func startSleep(t *testing.T) *process {
	t.Helper()
	cmd := (&server{folder: &folder{dir: "/"}}).command(nil, os.Stdin, syscall.SIGKILL, "/bin/sleep", "60")
	p, err := spawn(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killTree(p) })
	return p
}
