package auth

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestWrongCallers: each mistake in the file is told in words that name the caller and the field, and show no value that may be
// a secret.
func TestWrongCallers(t *testing.T) {
	one := func(fields string) string { return `{"callers":[{"name":"shop",` + fields + `}]}` }
	const marker = "marker-of-a-token"
	for _, test := range []struct{ name, content, want string }{
		{"empty", "", "is empty"},
		{"not JSON", marker + ":", "invalid character"},
		{"two objects", `{"callers":[]}{}`, "follows"},
		{"misspelt", one(`"role":["reader"]`), `unknown field "role"`},
		{"no name", `{"callers":[{"roles":["reader"]}]}`, "caller 1: its name"},
		{"a name twice", `{"callers":[{"name":"a","roles":["reader"],"subjects":["x"]},{"name":"a"}]}`, "caller 2: its name"},
		{"no roles", one(`"subjects":["x"]`), `caller "shop": roles: has none`},
		{"another role", one(`"roles":["admin"],"subjects":["x"]`), `no role "admin"`},
		{"nothing to show", one(`"roles":["reader"]`), "has none of certificates"},
		{"a token that is not hashed", one(`"roles":["reader"],"tokens_sha256":["` + marker + `"]`), "tokens_sha256[0]: must be 64"},
		{"half a hash", one(`"roles":["reader"],"tokens_sha256":["` + hashOf("x")[:32] + `"]`), "tokens_sha256[0]: must be 64"},
		{"an empty name to show", one(`"roles":["reader"],"certificates":[""]`), "certificates[0]: is empty"},
		{"one thing for two", `{"callers":[{"name":"a","roles":["reader"],"subjects":["x"]},{"name":"b","roles":["reader"],"subjects":["x"]}]}`, `subjects[0]: caller "a" has it`},
		{"limits for an operator", one(`"roles":["checkout","operator"],"subjects":["x"],"allotments":["a"]`), "allotments: only"},
		{"an empty limit", one(`"roles":["checkout"],"subjects":["x"],"allotments":["a",""]`), "allotments: a prefix is empty"},
		{"less than none", one(`"roles":["checkout"],"subjects":["x"],"max_in_flight":-1`), "max_in_flight"},
	} {
		_, err := New(Options{CallersFile: file(t, test.content), Logger: quiet()})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), marker) {
			t.Errorf("%s: %v, want %q and nothing secret", test.name, err, test.want)
		}
	}
	if _, err := New(Options{CallersFile: t.TempDir() + "/none", Logger: quiet()}); err == nil {
		t.Error("a file that is not there was taken")
	}
}

// TestTokensChange: a token counts from when it is in the file until it is not, and what is wrong with a changed file changes
// nothing and is logged, once.
func TestTokensChange(t *testing.T) {
	callers := func(tokens ...string) string {
		hashes := make([]string, len(tokens))
		for n, token := range tokens {
			hashes[n] = `"` + hashOf(token) + `"`
		}
		return `{"callers":[{"name":"shop","roles":["checkout"],"tokens_sha256":[` + strings.Join(hashes, ",") + `]}]}`
	}
	var log bytes.Buffer
	path := file(t, callers("one"))
	a, err := New(Options{CallersFile: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "the token is not known"
	for _, step := range []struct {
		name, content, one, two, log string
	}{
		{"at first", callers("one"), "shop", unknown, ""},
		{"both", callers("one", "two"), "shop", "shop", "read again"},
		{"the second alone", callers("two"), unknown, "shop", "read again"},
		{"broken", "{", unknown, "shop", "stays in force"},
		{"still broken", "{", unknown, "shop", ""},
		{"nobody", `{"callers":[]}`, unknown, unknown, "read again"},
	} {
		log.Reset()
		write(t, path, []byte(step.content))
		a.files.look()
		for token, want := range map[string]string{"one": step.one, "two": step.two} {
			if got := named(a.Caller(withToken(t, token))); got != want {
				t.Errorf("%s: token %s is of %q, want %q", step.name, token, got, want)
			}
		}
		if got := log.String(); !strings.Contains(got, step.log) || (step.log == "" && got != "") || strings.Contains(got, hashOf("two")) {
			t.Errorf("%s: logged %q", step.name, got)
		}
	}
}
