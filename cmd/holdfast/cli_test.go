package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// forget takes the settings of whoever runs the tests out of the environment.
func forget(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
}

func TestExitCodes(t *testing.T) {
	forget(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const redis, postgres = "--redis-url=redis://127.0.0.1:1/0", "--postgres-url=postgres://u@127.0.0.1:1/d"
	tests := []struct {
		args string
		code int
		out  string // in what is printed, on either
	}{
		{"version", 0, "holdfast unknown"},
		{"--version", 0, "holdfast unknown"},
		{"--help", 0, "serve"},
		{"help", 0, "serve"},
		{"help serve", 0, "HOLDFAST_REDIS_URL"},
		{"help sell", 2, "sell"},
		{"serve --help", 0, "HOLDFAST_REDIS_URL"},
		{"", 2, "serve"},
		{"sell", 2, "sell"},
		{"admin", 2, "create"},
		{"admin --help", 0, "reconcile"},
		{"help admin", 0, "reconcile"},
		{"admin get --help", 0, "HOLDFAST_ADDR"},
		{"admin get", 2, "<id>"},
		{"admin --token-file f list", 2, "settings come behind the command"},
		{"admin create x --state=", 2, `one of "open","paused","closed"`}, // an unset variable, not the default
		{"admin get x --addr=nowhere", 2, "--addr (HOLDFAST_ADDR)"},
		{"admin get x --timeout=1ms --addr=" + taken.Addr().String(), 1, "DEADLINE_EXCEEDED"},
		{"completion", 2, "<shell>"},
		{"completion csh", 2, "csh"},
		{"completion zsh", 0, "#compdef holdfast"},
		{"completion fish", 0, "complete -c holdfast"},
		{"serve", 2, "--redis-url (HOLDFAST_REDIS_URL): is required"},
		{"serve --nope", 2, "--nope"},
		{"serve extra", 2, "extra"},
		{"migrate", 2, "HOLDFAST_POSTGRES_URL"},
		{"erase-buyer", 2, "<buyer-id>"},
		{"erase-buyer x", 2, "HOLDFAST_POSTGRES_URL"},
		{"migrate " + postgres, 1, "migrate"},
		{"erase-buyer x " + postgres, 1, "erase"},
		{"serve --http-addr=127.0.0.1:0 --grpc-addr=" + taken.Addr().String() + " " + redis + " " + postgres, 1, "another program listens at " + taken.Addr().String()},
		{"dev --ephemeral --grpc-addr=" + taken.Addr().String() + " --http-addr=" + taken.Addr().String(), 1, "HOLDFAST_HTTP_ADDR"},
		{"dev --ephemeral --http-addr=127.0.0.1:0 --grpc-addr=" + taken.Addr().String(), 1, "HOLDFAST_GRPC_ADDR"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(t.Context(), strings.Fields(test.args), &out, &errOut)
			if code != test.code || !strings.Contains(out.String()+errOut.String(), test.out) {
				t.Errorf("exit code %d, want %d with %q; printed:\n%s%s", code, test.code, test.out, &out, &errOut)
			}
			if code == 0 && errOut.Len() > 0 {
				t.Errorf("wrote to standard error: %s", &errOut)
			}
		})
	}
}

// TestLastWordsAreLogged: why a server ends is a line like every other.
func TestLastWordsAreLogged(t *testing.T) {
	forget(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var errOut bytes.Buffer
	code := run(t.Context(), []string{
		"serve", "--http-addr=127.0.0.1:0", "--grpc-addr=" + taken.Addr().String(), "--redis-url=redis://127.0.0.1:1/0", "--postgres-url=postgres://u@127.0.0.1:1/d",
	}, io.Discard, &errOut)
	if code != exitError || !strings.Contains(errOut.String(), "another program listens") {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
	for line := range strings.Lines(errOut.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// TestURLsAreTrimmed: a URL that was read from a file ends in a line end.
func TestURLsAreTrimmed(t *testing.T) {
	forget(t)
	t.Setenv("HOLDFAST_REDIS_URL", " redis://127.0.0.1:1/0\r\n")
	t.Setenv("HOLDFAST_POSTGRES_URL", "postgres://u@127.0.0.1:1/d\n")
	chosen, err := parse([]string{"serve"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := chosen.check(); err != nil {
		t.Error(err)
	}
	if c := chosen.(*serveCommand); c.RedisURL != "redis://127.0.0.1:1/0" || c.PostgresURL != "postgres://u@127.0.0.1:1/d" {
		t.Errorf("%q, %q", c.RedisURL, c.PostgresURL)
	}
}

// unheard is an operator's command whose output nobody reads to its end.
type unheard struct{}

func (unheard) Problems() []string { return nil }

func (unheard) Run(context.Context, io.Writer, io.Writer) error {
	return &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

func TestBrokenPipeIsQuiet(t *testing.T) {
	if err := (operatorsCommand{unheard{}}).run(t.Context(), io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestUnknownVariables(t *testing.T) {
	forget(t)
	t.Setenv("HOLDFAST_REDIS_ULR", "redis://marker")
	t.Setenv("HOLDFAST_", "")
	var out bytes.Buffer
	if code := run(t.Context(), []string{"version"}, &out, &out); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if text := out.String(); !strings.Contains(text, "HOLDFAST_REDIS_ULR") || strings.Contains(text, "marker") {
		t.Errorf("printed %s", text)
	}
}

// TestEverySetting: each has a variable that is named after the flag, a meaning, and shows both in its help, with
// its default. What an operator's command is to do comes from the command line alone: a variable that was forgotten must not
// do it.
func TestEverySetting(t *testing.T) {
	forget(t)
	var commands cli
	parser, err := kong.New(&commands)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		var help bytes.Buffer
		if code := run(t.Context(), append(strings.Fields(leaf.Path()), "--help"), &help, &help); code != exitOK {
			t.Errorf("%s --help: exit code %d", leaf.Name, code)
		}
		text := strings.Join(strings.Fields(help.String()), " ")
		for _, flag := range leaf.Flags {
			if leaf.Parent.Name == "admin" && flag.Group == nil || flag.Name == "json" {
				if len(flag.Envs) > 0 {
					t.Errorf("%s --%s: has variables %v", leaf.Path(), flag.Name, flag.Envs)
				}
				continue
			}
			wantVariable := strings.TrimPrefix(strings.Fields(problem(flag.Name, "")[0])[1], "(")
			wantVariable = strings.TrimSuffix(wantVariable, "):")
			if len(flag.Envs) != 1 || flag.Envs[0] != wantVariable {
				t.Errorf("%s --%s: variables %v, want %s", leaf.Name, flag.Name, flag.Envs, wantVariable)
			}
			for _, want := range []string{"--" + flag.Name, "$" + wantVariable, flag.Default, strings.Join(strings.Fields(flag.Help), " ")} {
				if !strings.Contains(text, want) {
					t.Errorf("%s --help does not show %q of --%s", leaf.Name, want, flag.Name)
				}
			}
		}
	}
}

// TestNoSecrets: whatever is wrong, no password is printed.
func TestNoSecrets(t *testing.T) {
	urls := []string{
		"redis://user:marker@127.0.0.1:1/0", "redis://user:mar/ker@h:1", "redis://:marker@h:port/0", "redis://u:marker@h/nodb",
		"postgres://u:marker@127.0.0.1:1/d", "postgres://u:marker@h:99999/d", "postgres://u:mar%zzker@h/d",
		"postgres://h/d?password=marker", "postgres://u:marker@h/d?sslmode=nonsense", "postgres://u:marker@h/d?connect_timeout=x",
		"http://u:marker@h", "marker",
	}
	for _, url := range urls {
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"erase-buyer", "x"}, {"serve", "--help"}} {
			t.Run(url+" "+args[0], func(t *testing.T) {
				forget(t)
				t.Setenv("HOLDFAST_REDIS_URL", url)
				t.Setenv("HOLDFAST_POSTGRES_URL", url)
				t.Setenv("HOLDFAST_HTTP_ADDR", "127.0.0.1:0")
				t.Setenv("HOLDFAST_GRPC_ADDR", "127.0.0.1:0")
				var out bytes.Buffer
				run(t.Context(), args, &out, &out)
				text := out.String()
				if strings.Contains(text, "marker") || strings.Contains(text, "mar/ker") || strings.Contains(text, "ker@") {
					t.Errorf("printed a secret:\n%s", text)
				}
			})
		}
	}
	if got := redacted("postgres://u:marker@h:5432/d?sslmode=disable&password=marker"); got != "postgres://h:5432/d" {
		t.Errorf("redacted: %s", got)
	}
}

func TestFlagBeatsVariable(t *testing.T) {
	forget(t)
	t.Setenv("HOLDFAST_RETENTION", "2h")
	t.Setenv("HOLDFAST_INSECURE", "true")
	t.Setenv("HOLDFAST_REDIS_URL", "redis://h")
	for args, want := range map[string]time.Duration{"serve": 2 * time.Hour, "serve --retention=3h": 3 * time.Hour} {
		chosen, err := parse(strings.Fields(args), &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		serve := chosen.(*serveCommand)
		if serve.Retention != want || !serve.Insecure || serve.RedisURL != "redis://h" || serve.GRPCAddr != "127.0.0.1:50051" {
			t.Errorf("%s: %+v", args, serve)
		}
	}
}
