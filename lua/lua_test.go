package lua_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/lua"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func scripts(t *testing.T) map[string]lua.Script {
	t.Helper()
	all, err := lua.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sources are the files as they are, the prelude and the parts among them.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob("parts/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range append(files, parts...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(file, ".lua")] = string(text)
	}
	return all
}

// isScript says whether a source is a script of its own.
func isScript(name string) bool { return name != "prelude" && !strings.HasPrefix(name, "parts/") }

func TestEveryFileIsAScript(t *testing.T) {
	t.Parallel()
	all, files := scripts(t), sources(t)
	for name, text := range files {
		s, ok := all[name]
		if ok != isScript(name) || s.Name != name && ok {
			t.Errorf("%s is a script: %v", name, ok)
		}
		for part, content := range files {
			if part, ok := strings.CutPrefix(part, "parts/"); ok {
				text = strings.Replace(text, "-- include "+part+"\n", content, 1)
			}
		}
		if ok && strings.Count(s.Source, "\n") != strings.Count(files["prelude"]+text, "\n")+1 {
			t.Errorf("%s is not its file with its parts behind the prelude, line by line", name)
		}
	}
	if len(all) == 0 || len(all) > len(files) {
		t.Errorf("%d scripts of %d files", len(all), len(files))
	}
}

// Constants are numbers in what Redis loads, and texts, comments and fields of that name are left alone.
func TestConstantsAreFolded(t *testing.T) {
	t.Parallel()
	for name, s := range scripts(t) {
		code := comment.ReplaceAllString(s.Source, "")
		for _, word := range []string{"S.OK", "HELD", "B_LIVE", "FORMAT", "MOST"} {
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(code) {
				t.Errorf("%s still names %s", name, word)
			}
		}
		if !strings.Contains(code, "'INFO'") || !strings.Contains(code, "KEYS[") {
			t.Errorf("%s has lost a text or a name that is none of a constant", name)
		}
	}
}

func TestEveryScriptLoads(t *testing.T) {
	t.Parallel()
	options, err := redis.ParseURL(storetest.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	for name, s := range scripts(t) {
		sha, err := client.ScriptLoad(t.Context(), s.Source).Result()
		if err != nil || sha != s.SHA {
			t.Errorf("SCRIPT LOAD %s: %s, %v; want %s", name, sha, err, s.SHA)
		}
	}
}

// Each script says what it is for, takes, returns and costs.
func TestEveryScriptHasAHeader(t *testing.T) {
	t.Parallel()
	for name, text := range sources(t) {
		if !isScript(name) {
			continue
		}
		header, _, _ := strings.Cut(text, "\n\n")
		lines := strings.Split(header, "\n")
		title := regexp.MustCompile(`^-- ` + name + `( \([^)]+\))?: .+`)
		if !title.MatchString(lines[0]) {
			t.Errorf("%s.lua begins with %q, want its name and its purpose", name, lines[0])
		}
		at := 0
		for _, want := range []string{"-- KEYS  ", "-- ARGV  ", "-- Reply ", "-- O("} {
			i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) })
			if i <= at {
				t.Errorf("%s.lua: no line %q in its place in the header", name, want)
			}
			at = max(at, i)
		}
		for _, l := range lines {
			if !strings.HasPrefix(l, "--") {
				t.Errorf("%s.lua: no empty line after the header", name)
			}
		}
	}
}

var (
	comment = regexp.MustCompile(`--.*`)
	// A command with a key: its name, then the expression for the key.
	command = regexp.MustCompile(`(?:redis\.p?call\(|put\(|set = \{|writes\[#writes \+ 1\] = \{|index = \{|list = \{)\s*(?:'([A-Z]+)'|(\w+)),?\s*([^,)}]*)`)
	// Where a key may come from: KEYS itself, or what was read from it.
	declared = regexp.MustCompile(`^(.+ and h\.a\.(leases|ended) or )?` +
		`(KEYS\[[^\]']+\]|(h\.)?a\.(key|deadlines|leases|ended)|(h|b|hash)\.(key|marker)|a\[index\]|key|marker|index|unpack\(KEYS)$`)
	// The names under which keys are kept are set from KEYS, or passed on.
	assigned = regexp.MustCompile(`\b(key|deadlines|leases|ended|marker) = ([^,}]+)`)
	// The markers that flush is to set.
	markers = regexp.MustCompile(`\.markers\[[^=]*= (.+)`)
)

// keyless are the commands without a key, and where commands are passed on.
var keyless = map[string]bool{"TIME": true, "INFO": true}

// TestKeysAreDeclared: no key is built in a script, since a cluster must know all of them before. Any
// joining of texts is suspect, so each is listed here: they make tags and values.
func TestKeysAreDeclared(t *testing.T) {
	t.Parallel()
	joins := map[string]bool{
		`facts[i] = a.gate == S.OK and a.text .. struct.pack('>i8', a.nextDeadline) or a.gate`: true,
		`local function put(...)`:                                                     true,
		`writes[#writes + 1] = {...}`:                                                 true,
		`local tag = e[j] .. b.field`:                                                 true,
		`found[#found + 1], of[#of + 1] = e[B_HOME] .. b.field, endOf(r)`:             true,
		`if r then found.holds[#found.holds + 1] = record(e[B_HOME] .. field, r) end`: true,
		`local heads = {'\148' .. units .. '\0\1\176', '\152\1' .. units .. pack(a.epoch), '\153\1' .. units .. pack(a.epoch)}`: true,
		`local value = heads[1] .. sub(tag, 1, NAME) .. heads[whole and 2 or 3] .. pack(sequence) .. a.tail .. ids[i]`:          true,
	}
	commands := 0
	for name, text := range sources(t) {
		for i, line := range strings.Split(text, "\n") {
			line = strings.TrimSpace(comment.ReplaceAllString(line, ""))
			if strings.Contains(line, "..") && !joins[line] {
				t.Errorf("%s.lua:%d joins texts: %s", name, i+1, line)
			}
			for _, m := range command.FindAllStringSubmatch(line, -1) {
				verb, variable, key := m[1], m[2], m[3]
				if keyless[verb] || variable == "unpack" || variable == "command" && key == "key" {
					continue
				}
				commands++
				if verb == "" || !declared.MatchString(strings.TrimSpace(key)) {
					t.Errorf("%s.lua:%d: the key of %q is not one that was declared: %s", name, i+1, verb, line)
				}
			}
			for _, m := range assigned.FindAllStringSubmatch(line, -1) {
				value := strings.TrimSpace(m[2])
				if !strings.HasPrefix(value, "KEYS[") && value != "key" && value != "marker" && value != "{" && value != "firstKey + #hashes - 1" {
					t.Errorf("%s.lua:%d: a name for keys is set from %q", name, i+1, value)
				}
			}
			if m := markers.FindStringSubmatch(line); len(m) == 2 && !strings.HasSuffix(m[1], ", KEYS[marker + l]") {
				t.Errorf("%s.lua:%d: a marker is set from %q", name, i+1, m[1])
			}
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands were looked at: the expressions no longer fit", commands)
	}
}

// Redis does not roll back: only flush, at the end, may write. And time comes from one place.
func TestWritesAreLast(t *testing.T) {
	t.Parallel()
	reads := map[string]bool{
		"HGET": true, "HMGET": true, "HLEN": true, "HSCAN": true, "ZRANGE": true, "ZCARD": true, "ZSCORE": true,
		"ZRANGEBYSCORE": true, "EXISTS": true, "TIME": true, "INFO": true,
	}
	call := regexp.MustCompile(`redis\.(p?call)\('([A-Z]+)'`)
	for name, text := range sources(t) {
		before, _, _ := strings.Cut(text, "local function flush()")
		_, after, _ := strings.Cut(text, "local function reply(")
		for _, m := range call.FindAllStringSubmatch(before+after, -1) {
			if !reads[m[2]] {
				t.Errorf("%s.lua writes with %s outside of flush", name, m[2])
			}
		}
		if name != "prelude" && strings.Contains(text, "'TIME'") {
			t.Errorf("%s.lua asks for the time itself", name)
		}
		if isScript(name) && !regexp.MustCompile(`(?m)^return reply\(.+\)\n\z`).MatchString(text) {
			t.Errorf("%s.lua does not end with its reply", name)
		}
	}
}
