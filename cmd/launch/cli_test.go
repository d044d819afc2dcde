package main

import (
	"net"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"an unknown command":             {[]string{"offsale"}, "offsale"},
		"an unknown flag":                {[]string{"onsale", "--fast"}, "--fast"},
		"no port":                        {[]string{"--addr=localhost"}, `--addr is "localhost"`},
		"a second address without port":  {[]string{"--addr=localhost:1,b"}, `--addr is "b"`},
		"an admin address without port":  {[]string{"--admin-addr=b"}, `--admin-addr is "b"`},
		"no requests":                    {[]string{"--requests=0"}, "--requests must"},
		"requests that are no number":    {[]string{"--requests=many"}, "--requests"},
		"no time":                        {[]string{"steady", "--duration=0s"}, "--duration must"},
		"no stock":                       {[]string{"second-round", "--capacity=0"}, "--capacity must"},
		"a share of more than one":       {[]string{"--completion=65"}, "--completion must"},
		"a share that is no number":      {[]string{"--repeat=NaN"}, "--repeat must"},
		"a window that is too short":     {[]string{"--time-scale=0.001"}, "--window times --time-scale must"},
		"fewer than no retries":          {[]string{"--retries=-1"}, "--retries must"},
		"no connections":                 {[]string{"--connections=0"}, "--connections must"},
		"several of both":                {[]string{"closed", "--allotments=2", "--addr=a:1,b:2"}, "not both"},
		"nobody in flight":               {[]string{"closed", "--in-flight=0"}, "--in-flight must"},
		"an unknown kind":                {[]string{"closed", "--kind=maybes"}, "--kind"},
		"a round of nothing":             {[]string{"closed", "--rounds=0"}, "--rounds at least"},
		"a closed loop to no port":       {[]string{"closed", "--addr=x"}, `--addr is "x"`},
		"something wrong with compare":   {[]string{"compare", "--workers=0"}, "--workers"},
		"something wrong with window":    {[]string{"window", "--capacity=0"}, "--capacity"},
		"more than one thing is wrong":   {[]string{"--requests=0", "--capacity=0"}, "--capacity must"},
		"an argument that nobody needs":  {[]string{"onsale", "now"}, "now"},
		"a report in no folder":          {[]string{"onsale", "--report=/no/such/folder/x.html"}, "--report: open"},
		"a file that is a folder":        {[]string{"steady", "--json=/"}, "--json: open"},
		"a comparison's file":            {[]string{"compare", "--json=/"}, "--json: open"},
		"a closed loop's file":           {[]string{"closed", "--json=/"}, "--json: open"},
		"a flag of another command":      {[]string{"onsale", "--in-flight=3"}, "--in-flight"},
		"a flag that is without a value": {[]string{"onsale", "--json"}, "--json"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut strings.Builder
			if code := run(t.Context(), test.args, &out, &errOut); code != exitUsage {
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
		{[]string{"help", "onsale"}, []string{"(default 200000)", "--time-scale", "--report", "(default true)"}},
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
		{[]string{"closed", "--addr=" + address}, "create allotment"},
	} {
		t.Setenv(asLaunch, "1")
		var out, errOut strings.Builder
		ctx, cancel := contextFor(t)
		defer cancel()
		if code := run(ctx, test.args, &out, &errOut); code != exitError || !strings.Contains(errOut.String(), test.says) {
			t.Errorf("%v: exit code %d, %s", test.args, code, errOut.String())
		}
	}
}
