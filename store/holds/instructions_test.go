package holds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// Time says little on a busy machine. What a decision costs Redis is therefore also counted, in instructions, by
// callgrind: two runs differ by a percent or so.

// instructionBounds are the most that a decision may cost, as a multiple of a DECRBY in pipelines of the same
// size: some 5 % above what was counted.
var instructionBounds = map[string]float64{"hold": 14.2, "refusal": 3.95}

// profiledRedis is a Redis whose instructions are counted.
type profiledRedis struct {
	*fixture
	random *rand.Rand
	out    string // the first part of the names of callgrind's files
	dumps  int    // how many of them there are
}

// profile starts a Redis under callgrind. Whenever it is to run ECHO, callgrind first writes what was counted since
// the last time. Its own periodic work, which would be counted too, is made rare.
func profile(t testing.TB) *profiledRedis {
	t.Helper()
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skip("needs valgrind to count instructions; scripts/setup installs it")
	}
	dir := storetest.StateDir(t)
	p := &profiledRedis{
		fixture: &fixture{t: t, clock: new(atomic.Int64)}, random: rand.New(rand.NewPCG(1, 2)),
		out: filepath.Join(dir, "redis", "callgrind"), // a folder of its user's
	}
	server := storetest.NewRedis(t, local.RedisOptions{
		Dir:       dir,
		Under:     []string{valgrind, "--tool=callgrind", "--vgdb=no", "--compress-strings=no", "--dump-before=echoCommand", "--callgrind-out-file=" + p.out},
		ExtraArgs: []string{"--hz", "1", "--activerehashing", "no"},
	})
	p.open(onRedis(server.URL()))
	p.warm()
	return p
}

// count is how many instructions each of n requests takes.
func (p *profiledRedis) count(n int, work func()) float64 {
	p.t.Helper()
	p.dump()
	work()
	return p.dump() / float64(n)
}

// dump returns how many instructions Redis has run since the last dump.
func (p *profiledRedis) dump() float64 {
	p.t.Helper()
	must(p.t, p.raw.Echo(p.ctx(), "dump").Err())
	p.dumps++
	text, err := os.ReadFile(fmt.Sprintf("%s.%d", p.out, p.dumps))
	if os.IsNotExist(err) {
		p.t.Skip("callgrind does not know the functions of this redis-server: it has no names")
	}
	must(p.t, err)
	_, total, _ := strings.Cut(string(text), "\nsummary: ")
	total, _, _ = strings.Cut(total, "\n")
	n, err := strconv.ParseFloat(total, 64)
	must(p.t, err)
	return n
}

// decision is how many instructions a decision takes, and how many a DECRBY.
func (p *profiledRedis) decision(kind string, size int) (script, counter float64) {
	p.t.Helper()
	n := max(200, 40*size)
	decrements := 10 * n // so few instructions that Redis's periodic work would show
	send := p.batches(p.random, kind, n, size)
	return p.count(n, send), p.count(decrements, func() { p.countDown(decrements, size) })
}

// TestScriptInstructions keeps what a decision costs Redis from growing unnoticed.
func TestScriptInstructions(t *testing.T) {
	t.Parallel()
	p := profile(t)
	for _, kind := range slices.Sorted(maps.Keys(instructionBounds)) {
		most := instructionBounds[kind]
		script, counter := p.decision(kind, 32)
		t.Logf("a %s in batches of 32: %.0f instructions, %.1f times a DECRBY", kind, script, script/counter)
		if script/counter > most {
			t.Errorf("a %s takes %.1f times the instructions of a DECRBY, want at most %.1f", kind, script/counter, most)
		}
	}
}

// BenchmarkScriptInstructions counts the instructions of Redis that a decision takes.
func BenchmarkScriptInstructions(b *testing.B) {
	p := profile(b)
	for _, size := range []int{1, 8, 32, 128} {
		for _, kind := range []string{"hold", "repeat", "refusal"} {
			b.Run(fmt.Sprintf("%s/batch=%d", kind, size), func(b *testing.B) {
				for b.Loop() {
					script, counter := p.decision(kind, size)
					b.ReportMetric(script, "instr/decision")
					b.ReportMetric(script/counter, "x-DECRBY")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
