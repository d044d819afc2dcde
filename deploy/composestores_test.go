package deploy

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestComposeSettings: with the file's Redis and its user, and the file's settings, Holdfast is ready and has nothing to complain
// of; both healthchecks pass.
func TestComposeSettings(t *testing.T) {
	project := compose(t)
	redis := startRedis(t, project)
	postgres := storetest.NewPostgres(t, local.PostgresOptions{})
	if err := postgres.CreateDatabase(t.Context(), "holdfast"); err != nil {
		t.Fatal(err)
	}
	if output, err := healthcheck(t, project.Services["postgres"], "--port="+port(t, postgres.Addr())); err != nil {
		t.Errorf("healthcheck of postgres: %v: %s", err, output)
	}

	settings := project.Services["holdfast"].Environment
	server, err := program.Serve(t.Context(), buildHoldfast(t), program.Stores{
		RedisURL:    moved(t, *settings["HOLDFAST_REDIS_URL"], redis),
		PostgresURL: moved(t, *settings["HOLDFAST_POSTGRES_URL"], postgres.Addr()),
	}, program.Settings{Environment: others(settings)})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(time.Duration(*project.Services["holdfast"].StopGracePeriod)); err != nil {
		t.Error(err)
	}
	if log := server.Tail(); strings.Contains(log, `"level":"WARN"`) || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log complains:\n%s", log)
	}
}

// startRedis starts a redis-server with the file's configuration, and returns where, once the file's healthcheck passes.
func startRedis(t *testing.T, project *types.Project) string {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "redis.conf")
	if err := os.WriteFile(file, []byte(project.Configs["redis"].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	cmd := exec.Command("redis-server", file, "--bind", "127.0.0.1", "--port", port(t, address), "--dir", folder)
	redis, err := program.Start(cmd)
	if err != nil {
		t.Fatalf("%v: scripts/setup installs redis-server", err)
	}
	t.Cleanup(func() { _ = redis.Stop(10 * time.Second) }) // the folder goes anyway
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		output, err := healthcheck(t, project.Services["redis"], "-p "+port(t, address))
		if err == nil {
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("healthcheck of redis: %v: %s", err, output)
		}
	}
}

// healthcheck runs a service's healthcheck here, where another port has to be named.
func healthcheck(t *testing.T, service types.ServiceConfig, port string) (string, error) {
	t.Helper()
	kind, words := service.HealthCheck.Test[0], service.HealthCheck.Test[1:]
	var cmd *exec.Cmd
	if kind == "CMD-SHELL" {
		first, rest, _ := strings.Cut(words[0], " ")
		cmd = exec.CommandContext(t.Context(), "sh", "-c", first+" "+port+" "+rest)
	} else {
		cmd = exec.CommandContext(t.Context(), words[0], append(words[1:], port)...)
	}
	cmd.Env = os.Environ()
	for name, value := range service.Environment {
		cmd.Env = append(cmd.Env, name+"="+*value)
	}
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// moved is a URL with another address.
func moved(t *testing.T, text, address string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = address
	return u.String()
}

// others are the settings that do not say where something is.
func others(settings types.MappingWithEquals) []string {
	var all []string
	for name, value := range settings {
		if !strings.HasSuffix(name, "_URL") && !strings.HasSuffix(name, "_ADDR") {
			all = append(all, name+"="+*value)
		}
	}
	return all
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func buildHoldfast(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/holdfast")
	build.Dir = ".."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, output)
	}
	return path
}
