package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// grace is how long a server may take to stop before it is killed: Kubernetes' default.
const grace = 30 * time.Second

// execScript runs a command in an unpacked image.
const execScript = "scripts/image-exec"

// serve runs the image's program on private stores, calls it, and stops it while callers watch.
func serve(ctx context.Context, i *image, root string, want identity) (err error) {
	command, err := writeCommand(i, root)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(command) }()
	if err := printsVersion(ctx, command, want); err != nil {
		return err
	}
	stores, stop, err := privateStores(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	// The drain delay that ships, since that is what has to fit into the grace.
	server, err := program.Serve(ctx, command, stores, program.Settings{Flags: []string{"--drain-delay=5s"}})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; the server's log ends with:\n%s", err, server.Tail())
		}
	}()
	defer server.Kill() // nothing to do if it has been stopped
	if err := isConfined(server.PID(), i.config.Config.User); err != nil {
		return err
	}
	seen(i, "ready, as %s, with a root that can not be written to", i.config.Config.User)
	if err := answers(ctx, server); err != nil {
		return err
	}
	seen(i, "livez, readyz, metrics and gRPC health answer; a hold is created and sold")
	took, err := stopWatched(ctx, server)
	if err != nil {
		return err
	}
	seen(i, "SIGTERM: health watchers were told, streams ended, exit code 0 after %v", took.Round(100*time.Millisecond))
	return nil
}

// writeCommand makes a program that runs the image's entrypoint in the image, with the arguments that it gets.
func writeCommand(i *image, root string) (string, error) {
	script, err := filepath.Abs(execScript)
	if err != nil {
		return "", err
	}
	words := append([]string{script, root, i.config.Config.User}, i.config.Config.Entrypoint...)
	path := root + "-command"
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", strings.Join(words, "' '"))
	return path, os.WriteFile(path, []byte(text), 0o755) //nolint:gosec // a program, without secrets
}

func printsVersion(ctx context.Context, command string, want identity) error {
	output, err := exec.CommandContext(ctx, command, "version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("holdfast version: %w: %s", err, output)
	}
	if line := fmt.Sprintf("holdfast %s (revision %s)\n", want.version, want.revision); string(output) != line {
		return fmt.Errorf("holdfast version: %q, must be %q", output, line)
	}
	return nil
}

func privateStores(ctx context.Context) (program.Stores, func() error, error) {
	redis, err := local.StartRedis(ctx, local.RedisOptions{})
	if err != nil {
		return program.Stores{}, nil, err
	}
	postgres, err := local.StartPostgres(ctx, local.PostgresOptions{})
	if err != nil {
		return program.Stores{}, nil, errors.Join(err, redis.Close(context.WithoutCancel(ctx)))
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return errors.Join(redis.Close(ctx), postgres.Close(ctx))
	}
	return program.Stores{PostgresURL: postgres.URL("postgres"), RedisURL: redis.URL()}, stop, nil
}

// isConfined looks at a process as the kernel knows it, so that a confinement that does not work is noticed.
func isConfined(pid int, user string) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	uid, gid, _ := strings.Cut(user, ":")
	for field, want := range map[string][]string{
		"Uid:": {uid, uid, uid, uid}, "Gid:": {gid, gid, gid, gid}, "CapEff:": {"0000000000000000"}, "NoNewPrivs:": {"1"},
	} {
		if got := wordsAfter(string(status), field); !slices.Equal(got, want) {
			return fmt.Errorf("the server runs with %s %v, must be %v", field, got, want)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if words := strings.Fields(line); words[4] == "/" && slices.Contains(strings.Split(words[5], ","), "ro") {
			return nil
		}
	}
	return errors.New("the server's root can be written to")
}

func wordsAfter(text, name string) []string {
	_, rest, _ := strings.Cut(text, "\n"+name)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}

// answersHTTP checks what probes and Prometheus ask for.
func answersHTTP(ctx context.Context, address string) error {
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
	}
	return nil
}
