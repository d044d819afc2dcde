package main

import (
	"net"
	"strings"
	"testing"
)

// TestUsage: what is wrong is named, with what it is and what it may be, and nothing is begun.
func TestUsage(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		says string
	}{
		"an unknown command":             {"offsale", "offsale"},
		"an unknown flag":                {"onsale --fast", "--fast"},
		"an argument that nobody needs":  {"onsale now", "now"},
		"a flag of another command":      {"onsale --in-flight=3", "--in-flight"},
		"a flag that is without a value": {"onsale --json", "--json"},
		"a flag for another's value":     {"--json --noop", `--json: expected string value but got "--noop"`},
		"more than one thing is wrong":   {"--requests=0 --capacity=0", "--capacity is 0, must be from 1 to 1,000,000,000"},

		"no address":                    {"--addr=", `--addr is "", must be HOST:PORT with a port from 1 to 65535`},
		"no port":                       {"--addr=localhost", `--addr is "localhost", must be HOST:PORT`},
		"a second address without port": {"--addr=localhost:1,b", `--addr is "b", must be HOST:PORT`},
		"a port that is none":           {"--addr=localhost:65536", `--addr is "localhost:65536", must be HOST:PORT with a port`},
		"an admin address without port": {"--admin-addr=b", `--admin-addr is "b", must be HOST:PORT`},
		"a token in the clear":          {"--addr=127.0.0.1:1,example.org:1 --token-file=x", `--token-file (HOLDFAST_TOKEN_FILE): would be sent to "example.org:1" in the clear`},
		"an operator's in the clear":    {"--admin-addr=example.org:1 --token-file=x", `would be sent to "example.org:1" in the clear`},
		"a certificate without a key":   {"closed --cert-file=x", "--cert-file (HOLDFAST_CERT_FILE) and --key-file (HOLDFAST_KEY_FILE): give both or none"},
		"no connections":                {"--connections=0", "--connections is 0, must be from 1 to 1,000"},
		"a server that is no process":   {"--server-pid=-4", "--server-pid is -4, must be from 0"},
		"a server that is not there":    {"--server-pid=2147483647", "--server-pid is 2147483647, and there is no such process"},
		"a Redis that is not there":     {"closed --redis-pid=2147483647", "--redis-pid is 2147483647, and there is no such process"},
		"a Redis that is no process":    {"--redis-pid=-4", "--redis-pid is -4, must be from 0"},
		"a seed below 0":                {"--seed=-1", `--seed: expected a valid 64 bit uint but got "-1"`},

		"no requests":                 {"--requests=0", "--requests is 0, must be from 1 to 10,000,000"},
		"fewer than no requests":      {"--requests -5", "--requests is -5, must be from 1 to 10,000,000"},
		"requests that are no number": {"--requests=many", `--requests: expected a valid 64 bit int but got "many"`},
		"no time":                     {"steady --duration=0s", "--duration is 0s, must be from 1ms to 24h"},
		"time that runs backwards":    {"--duration -1s", "--duration is -1s, must be from 1ms to 24h"},
		"time without a unit":         {"--duration=5", `--duration: expected duration but got "5"`},
		"a rate that nobody can send": {"--requests=5000 --duration=2ms", "--requests in --duration are 2,500,000 a second, must be at most 1,000,000"},
		"no stock":                    {"second-round --capacity=0", "--capacity is 0, must be from 1 to 1,000,000,000"},
		"no window":                   {"--window=0s", "--window is 0s, must be from 1ms to 24h"},
		"a window that is too short":  {"--time-scale=0.001", "--window times --time-scale is 120ms, must be from 1s to 24h"},
		"a window that is too long":   {"--time-scale=1000", "--window times --time-scale is 33h20m, must be from 1s to 24h"},
		"a scale below 0":             {"--time-scale=-1", "--time-scale is -1, must be from"},
		"a scale that is no number":   {"--time-scale=NaN", "--time-scale is NaN, must be from"},
		"a scale without end":         {"--time-scale=Inf", "--time-scale is +Inf, must be from"},
		"more than all want two":      {"--two=1.1", "--two is 1.1, must be from 0 to 1"},
		"fewer than nobody pays":      {"--completion -0.1", "--completion is -0.1, must be from 0 to 1"},
		"a share of more than one":    {"steady --completion=2", "--completion is 2, must be from 0 to 1"},
		"a share that is no number":   {"--repeat=NaN", "--repeat is NaN, must be from 0 to 1"},
		"a share that is a word":      {"--repeat=all", `--repeat: expected a float but got "all"`},
		"fewer than no retries":       {"--retries=-1", "--retries is -1, must be from 0 to 100"},
		"neither yes nor no":          {"--lapses=maybe", "--lapses: bool value must be true, 1, yes, false, 0 or no"},
		"a report in no folder":       {"onsale --report=/no/such/folder/x.html", "--report: open"},
		"a file that is a folder":     {"steady --json=/", "--json: open"},
		"two files that are one":      {"--json=x --report=x", `--json and --report are both "x", must be two files`},

		"nobody in flight":              {"closed --in-flight=0", "--in-flight is 0, must be from 1 to 100,000"},
		"no allotments":                 {"closed --allotments=0", "--allotments is 0, must be from 1 to 10,000"},
		"several of both":               {"closed --allotments=2 --addr=a:1,b:2", "--allotments and --addr are several, must be one of them"},
		"an unknown kind":               {"closed --kind=maybes", `--kind must be one of "refusals","holds"`},
		"a round of nothing":            {"closed --rounds=0", "--rounds is 0, must be from 1 to 1,000"},
		"a round of no time":            {"closed --duration=1ms", "--duration is 1ms, must be from 10ms to 1h"},
		"a warm-up that runs backwards": {"closed --warm-up -1s", "--warm-up is -1s, must be from 0s to 1h"},
		"rounds that outlast a hold":    {"closed --rounds=100 --duration=5m", "--rounds times --warm-up and --duration is 8h21m40s, must be from 0s to 7h"},
		"a closed loop to no port":      {"closed --addr=x", `--addr is "x", must be HOST:PORT`},
		"a closed loop's file":          {"closed --json=/", "--json: open"},

		"no stock to compare":        {"compare --capacity=0", "--capacity is 0, must be from 1 to 1,000,000,000"},
		"no requests to compare":     {"compare --requests -5", "--requests is -5, must be from 1 to 1,000,000"},
		"nobody who asks":            {"compare --workers=0", "--workers is 0, must be from 1 to 10,000"},
		"too many for Postgres":      {"compare --conns=181", "--conns is 181, must be from 1 to 180"},
		"a seed of 33 bits":          {"compare --seed=4294967296", `--seed: expected a valid 32 bit uint but got "4294967296"`},
		"a way that there is not":    {"compare --ways=magic", `--ways: there is no "magic"; there are unprotected`},
		"a Postgres of another sort": {"compare --postgres-url=x", "--postgres-url must be a URL that begins with postgres://"},
		"a Redis of another sort":    {"compare --redis-url=x", "--redis-url must be a URL that begins with redis://"},
		"a program that is not here": {"compare --holdfast=/no/such/program", "--holdfast must be a program"},
		"a server of no port":        {"compare --addr=nowhere", `--addr is "nowhere", must be HOST:PORT`},
		"a server and a program":     {"compare --addr=a:1 --holdfast=go", "--addr and --holdfast: must be one or the other"},
		"a server that is left out":  {"compare --addr=a:1 --ways=mutex", "--addr and --holdfast: must not be given where --ways leaves holdfast out"},
		"a comparison's file":        {"compare --json=/", "--json: open"},

		"no stock to size":         {"window --capacity=0", "--capacity is 0, must be from 1 to 1,000,000,000"},
		"no requests to size":      {"window --requests -5", "--requests is -5, must be from 1 to 10,000,000,000"},
		"no rush":                  {"window --duration=0s", "--duration is 0s, must be from 1ms to 720h"},
		"requests for nothing":     {"window --items=0", "--items is 0, must be from 0.001 to 1000"},
		"requests for no number":   {"window --items=NaN", "--items is NaN, must be from 0.001 to 1000"},
		"requests for everything":  {"window --items=Inf", "--items is +Inf, must be from 0.001 to 1000"},
		"no windows":               {"window --window=", "--window is empty, must be LENGTH=SHARE,..."},
		"a window without a share": {"window --window=120s", `--window: "120s" is not LENGTH=SHARE, such as 120s=0.65`},
		"a window of a year":       {"window --window=8760h=0.5", "--window: a length is 8760h, must be from 1ms to 720h"},
		"a run that is not there":  {"window --from=nowhere.json", "--from: open nowhere.json"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut strings.Builder
			if code := run(t.Context(), strings.Fields(test.args), &out, &errOut); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(errOut.String(), test.says) || !strings.Contains(errOut.String(), "launch --help") {
				t.Errorf("no %q in %q", test.says, errOut.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, test := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"onsale", "Exit code 0"}},
		{[]string{"--help"}, []string{"onsale", "steady", "second-round", "closed", "compare", "window", "Exit code 0"}},
		{[]string{"help", "onsale"}, []string{"(default 200000)", "--time-scale", "--report", "(default true)", "$HOLDFAST_TOKEN_FILE"}},
		{[]string{"steady", "--help"}, []string{"(default 60000)", "(default 100000)"}},
		{[]string{"closed", "--help"}, []string{"--in-flight", "--redis-pid"}},
	} {
		var out, errOut strings.Builder
		if code := run(t.Context(), test.args, &out, &errOut); code != exitOK || errOut.Len() > 0 {
			t.Errorf("%v: exit code %d, %s", test.args, code, errOut.String())
		}
		for _, want := range test.says {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: no %q in:\n%s", test.args, want, out.String())
			}
		}
		if strings.Contains(out.String(), "noop-server") {
			t.Errorf("%v: the hidden command is shown", test.args)
		}
	}
}

// TestNobodyServes: without a server there is nothing to judge.
func TestNobodyServes(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--addr=" + address}, "--addr: no Holdfast answers: connect to " + address},
		{[]string{"closed", "--addr=" + address}, "--addr: no Holdfast answers: connect to " + address},
	} {
		t.Setenv(asLaunch, "1")
		var out, errOut strings.Builder
		if code := run(t.Context(), test.args, &out, &errOut); code != exitError || !strings.Contains(errOut.String(), test.says) {
			t.Errorf("%v: exit code %d, %s", test.args, code, errOut.String())
		}
	}
}
