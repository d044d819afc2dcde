package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// redisSettings are the faults of how Redis is set up, of its memory, its disk and its clock.
func redisSettings() []Case {
	return []Case{
		manyHolds(),
		{
			Row: record.Row{
				Case: "F21", Title: "Redis maxmemory reached", Deployment: standalone,
				Fault:    "maxmemory set below what is used, for 2 s (long: 10 s)",
				Expected: "holds are UNAVAILABLE; confirms work, and stock can be added",
			},
			Random: true, Proof: []string{"OOM", "trouble", "confirmed meanwhile"}, Guards: []string{"pass"}, Inject: fillMemory, Check: countConfirms,
		},
		{
			Row: record.Row{
				Case: "F22", Title: "eviction policy wrong", Deployment: standalone,
				Fault:    "maxmemory-policy allkeys-lru when a server starts",
				Expected: "it does not become ready, and says why",
			},
			Proof: []string{"refused to be ready"}, Guards: []string{"eviction"}, Inject: wrongPolicy,
		},
		{
			Row: record.Row{
				Case: "F23", Title: "Redis disk full", Deployment: "standalone, a file system of 16 MB",
				Fault:    "the file system filled for 3 s (long: 10 s)",
				Expected: "MISCONF: UNAVAILABLE; recovery with the space",
			},
			Proof: []string{"MISCONF", "trouble"}, Guards: []string{"trouble"}, Needs: needsMount, Inject: fillDisk,
			Prepare: func(s *world.Settings) { s.SmallDisk = true },
		},
		clockCase("F24-forward", 300), clockCase("F24-back", -300),
		{
			Row: record.Row{
				Case: "F25", Title: "ACL without CONFIG and channels", Deployment: "a Redis user with scripts, INFO and its own keys only",
				Fault:    "the restricted user, all the time",
				Expected: "everything works but for events: what lapses comes back by sweeping and on need",
			},
			Proof: []string{"refused by ACL", "lapsed meanwhile"}, Guards: []string{"need", "sweep", "reads"}, Inject: restricted, Check: countLapses,
			Prepare: func(s *world.Settings) {
				s.User = "app:secret"
				s.Redis.ExtraArgs = []string{
					"--user", "app", "on", ">secret", "resetchannels", "~hf:*", "+@read", "+@write", "+@scripting", "+@connection", "+@pubsub",
					"-@dangerous", "-@admin", "+info", "+wait", "+time",
				}
			},
		},
	}
}

// countLapses counts the holds of the history whose deadline passed while the fault lasted, and that lapsed.
func countLapses(s *Scene, h *history.History) {
	if h.Final == nil {
		return
	}
	deadlines := map[string]time.Duration{}
	for _, c := range h.Calls {
		if c.Hold != nil {
			deadlines[c.Hold.ID] = c.Answered + c.Hold.Remaining
		}
	}
	lapsed := 0
	for _, hold := range h.Final.Holds {
		if hold.State == history.Lapsed && within(h.Faults, deadlines[hold.ID]) {
			lapsed++
		}
	}
	s.Hit("lapsed meanwhile", lapsed)
}

// countConfirms counts the confirms that succeeded while the fault lasted.
func countConfirms(s *Scene, h *history.History) {
	confirmed := 0
	for _, c := range h.Calls {
		if c.Kind == history.ConfirmHold && c.Outcome == history.Done && within(h.Faults, c.Sent) && within(h.Faults, c.Answered) {
			confirmed++
		}
	}
	s.Hit("confirmed meanwhile", confirmed)
}

func fillMemory(ctx context.Context, s *Scene) error {
	other := s.books.Of(s.Allotment + "-grows")
	if err := other.Create(ctx, 1, time.Minute); err != nil {
		return err
	}
	refused := s.refusals(ctx, "OOM")
	healed := s.Fault("Redis is out of memory", false)
	if err := s.Client.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil {
		return err
	}
	if err := s.grow(ctx, other); err != nil {
		return err
	}
	if err := s.Last(ctx, 2*time.Second, 10*time.Second); err != nil {
		return err
	}
	if err := s.Client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		return err
	}
	healed()
	s.Hit("OOM", s.refusals(ctx, "OOM")-refused)
	return nil
}

// grow adds a unit to another allotment, which takes no memory to speak of.
func (s *Scene) grow(ctx context.Context, other *books.Books) error {
	growing, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err := other.Grow(growing, 1, "growth")
	if ctx.Err() == nil && err != nil {
		s.Wrong("stock could not be added while Redis was out of memory: " + err.Error())
	}
	return ctx.Err()
}

// readyLimit is how long a server is given that must not become ready.
const readyLimit = 3 * time.Second

func wrongPolicy(ctx context.Context, s *Scene) error {
	victim := s.Victim()
	healed := s.Fault("a server starts under a bad eviction policy", false)
	if err := s.Client.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		return err
	}
	s.Silent(victim)
	victim.Kill()
	<-victim.Ended()
	starting, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	switch err := victim.Start(starting); {
	case err == nil:
		s.Wrong("a server became ready under maxmemory-policy allkeys-lru")
	case strings.Contains(err.Error(), "maxmemory-policy is allkeys-lru"):
		s.Hit("refused to be ready", 1)
	default:
		s.Wrong("a server was not ready under maxmemory-policy allkeys-lru, and did not say why: " + err.Error())
	}
	if err := s.Client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err(); err != nil {
		return err
	}
	if !victim.Running() {
		if err := victim.Start(ctx); err != nil {
			return err
		}
	}
	healed()
	return nil
}

// needsMount: only root may make a small file system.
func needsMount() string {
	if os.Geteuid() != 0 {
		return "only root can mount a file system of 16 MB"
	}
	dir, err := os.MkdirTemp("", "holdfast-mount-")
	if err != nil {
		return err.Error()
	}
	defer os.Remove(dir)
	if output, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		return "no file system can be mounted here: " + strings.TrimSpace(string(output))
	}
	if err := exec.Command("umount", dir).Run(); err != nil {
		return err.Error()
	}
	return ""
}

// fillDisk leaves Redis no room for its append-only file.
func fillDisk(ctx context.Context, s *Scene) error {
	refused := s.refusals(ctx, "MISCONF")
	healed := s.Fault("the disk of Redis is full", false)
	filler := filepath.Join(s.Redis.Dir(), "filler")
	file, err := os.Create(filler)
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block) // until there is no room
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := s.Last(ctx, 3*time.Second, 10*time.Second); err != nil {
		return err
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := s.writable(ctx); err != nil {
		return err
	}
	healed()
	s.Hit("MISCONF", s.refusals(ctx, "MISCONF")-refused)
	return nil
}

// clockCase moves the clock of Redis.
func clockCase(name string, seconds int64) Case {
	return Case{
		Row: record.Row{
			Case: name, Title: "Redis clock", Deployment: "standalone, a clock that can be moved",
			Fault:    fmt.Sprintf("Redis's clock moved by %+d s for 3 s (long: 10 s); backwards: and then forwards again", seconds),
			Expected: "alarm; deadlines move with it, as documented; never oversold",
		},
		Proof: []string{"clock moved", "alarms"}, Guards: []string{"clock"}, Needs: needsCompiler,
		Prepare: func(s *world.Settings) { s.Clock = true },
		Inject:  func(ctx context.Context, s *Scene) error { return moveClock(ctx, s, seconds) },
	}
}

// firstLook is within what each server has looked at a new allotment, and so at the clock of its Redis.
const firstLook = 5 * time.Second

func needsCompiler() string {
	if _, err := exec.LookPath("gcc"); err != nil {
		return "there is no C compiler (gcc) to make the clock with"
	}
	return ""
}

func moveClock(ctx context.Context, s *Scene, seconds int64) error {
	if err := pause(ctx, firstLook); err != nil {
		return err
	}
	alarms := s.clockJumps(ctx)
	healed := s.Fault("Redis's clock jumps by "+strconv.FormatInt(seconds, 10)+" s", true)
	if err := s.MoveClock(time.Duration(seconds) * time.Second); err != nil {
		return err
	}
	s.Hit("clock moved", 1)
	if err := s.Last(ctx, 3*time.Second, 10*time.Second); err != nil {
		return err
	}
	if seconds < 0 { // else what was held meanwhile would be held for so long
		if err := s.MoveClock(0); err != nil {
			return err
		}
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	healed()
	s.Hit("alarms", s.clockJumps(ctx)-alarms)
	return nil
}

// clockJumps is how often servers have raised the alarm that Redis's clock had jumped.
func (s *Scene) clockJumps(ctx context.Context) int {
	sum := 0.0
	for _, server := range s.Servers {
		if v, err := server.Vitals(ctx); err == nil { // a busy one is not asked twice
			sum += v.ClockJumps
		}
	}
	return int(sum)
}

// restricted lets callers call while Redis's user may do little.
func restricted(ctx context.Context, s *Scene) error {
	healed := s.Fault("Redis's user is restricted", false)
	if err := s.Last(ctx, 4*time.Second, 10*time.Second); err != nil {
		return err
	}
	healed()
	log, err := s.Client.Do(ctx, "ACL", "LOG").Slice()
	s.Hit("refused by ACL", len(log))
	return errors.Join(err)
}
