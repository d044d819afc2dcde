package holds

import (
	"slices"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		kind          kind
		hosts, master string
		db            int
		tls           bool
		shown         string
	}{
		"redis://h":                  {standalone, "h:6379", "", 0, false, "redis://h:6379/0"},
		"rediss://user:secret@h:1/3": {standalone, "h:1", "", 3, true, "rediss://h:1/3"},
		"redis://[::1]:7/1":          {standalone, "[::1]:7", "", 1, false, "redis://[::1]:7/1"},
		"redis-sentinel://user:secret@a:1,b,[::1]:3/main?db=2&sentinel_username=watch&sentinel_password=secret": {
			sentinel, "a:1 b:26379 [::1]:3", "main", 2, false, "redis-sentinel://a:1,b:26379,[::1]:3/main?db=2"},
		"rediss-sentinel://:s%40cr@a/main":  {sentinel, "a:26379", "main", 0, true, "rediss-sentinel://a:26379/main?db=0"},
		"redis-cluster://user:secret@a:1,b": {cluster, "a:1 b:6379", "", 0, false, "redis-cluster://a:1,b:6379"},
		"rediss-cluster://a/0":              {cluster, "a:6379", "", 0, true, "rediss-cluster://a:6379"},
	} {
		got, err := parseURL(text)
		must(t, err)
		if got.kind != want.kind || !slices.Equal(got.hosts, strings.Fields(want.hosts)) || got.master != want.master ||
			got.options.DB != want.db || (got.options.TLSConfig != nil) != want.tls {
			t.Errorf("%s: %+v with %+v", text, got, got.options)
		}
		if shown := RedactedURL(text); shown != want.shown {
			t.Errorf("%s is shown as %s, want %s", text, shown, want.shown)
		}
	}
}

// Sentinels have users of their own; those of Redis are not for them, nor the other way round. Each server is checked
// against a certificate for its own name.
func TestURLUsersAndNames(t *testing.T) {
	t.Parallel()
	target, err := parseURL("rediss-sentinel://user:one@a,b/main?db=2&sentinel_username=watch&sentinel_password=two")
	must(t, err)
	o := target.sentinelOptions("b:26379")
	if o.Username != "watch" || o.Password != "two" || o.DB != 0 || o.TLSConfig.ServerName != "b" {
		t.Errorf("of a Sentinel: %+v", o)
	}
	o = optionsAt(target.options, "c:6379")
	if o.Username != "user" || o.Password != "one" || o.DB != 2 || o.TLSConfig.ServerName != "c" {
		t.Errorf("of the master: %+v", o)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for text, said := range map[string]string{
		"":                                     "must begin with",
		"h:6379":                               "must begin with",
		"http://h":                             "must begin with",
		"sentinel://h/main":                    "must begin with",
		"redis://":                             "names no host",
		"redis://user:secret@":                 "names no host",
		"redis://user:secret@a,b":              "several hosts",
		"redis://user:sec/ret@h":               "percent-encoded",
		"redis://user:12/secret@h":             "percent-encoded",
		"redis://user:12?secret@h":             "percent-encoded",
		"redis://user:secret@h:port/0":         "percent-encoded",
		"redis://us er:secret@h":               "percent-encoded",
		"redis://user:secret@h/x":              "database",
		"redis://user:secret@h?max_retrys=1":   "max_retrys",
		"redis-sentinel://user:secret@h":       "must name the master",
		"redis-sentinel://user:secret@h/a/b":   "must name the master",
		"redis-sentinel://user:secret@h,/main": "names no host",
		"redis-sentinel://user:secret@h/main?sentinel_password=secret&db=x": "database",
		"redis-cluster://user:secret@h/1":                                   "only database 0",
		"redis-cluster://user:secret@h?db=1":                                "only database 0",
		"redis-cluster://user:secret@h,h2:x":                                "percent-encoded",
	} {
		err := CheckURL(text)
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, want to be told that it %s", text, err, said)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec/") || strings.Contains(err.Error(), "12") {
			t.Errorf("%s: the error shows the password: %v", text, err)
		}
		if shown := RedactedURL(text); shown != "not a URL" {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}
