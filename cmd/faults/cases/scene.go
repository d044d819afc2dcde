// Package cases is the faults: what each is, how it is injected, what must be seen, and which guard its control takes out.
package cases

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// Scene is what the code of a case works on, while callers call.
type Scene struct {
	*world.World

	Long      bool // faults last as long as the matrix says
	Rand      *rand.Rand
	Allotment string
	Next      string // the program with another version of its scripts

	books *books.Books
	now   func() time.Duration

	mu     sync.Mutex
	faults []*history.Fault
	hits   []record.Hit
	silent map[string]bool // addresses of servers that are not there to answer
	wrong  []string

	loadEnd    time.Duration // when callers no longer called
	switchedAt time.Duration // when another master was named; 0: none was
	resumed    stay          // of a server with an old master
}

// Fault notes that something is broken from now until the function that it returns is called. loses: it may lose
// acknowledged holds.
func (s *Scene) Fault(name string, loses bool) (healed func()) {
	return s.fault(&history.Fault{Name: name, Loses: loses, Rewinds: loses})
}

// Rewind notes a fault that may lose what nobody was told of, and if it loses acknowledged holds, those, too.
func (s *Scene) Rewind(name string, loses bool) (healed func()) {
	return s.fault(&history.Fault{Name: name, Loses: loses, Rewinds: true})
}

func (s *Scene) fault(f *history.Fault) (healed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.From, f.Until = s.now(), never
	f.Rewinds = f.Rewinds || s.Redis == nil // whatever it is, it may make another server the master
	s.faults = append(s.faults, f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f.Until = s.now()
	}
}

// Hit counts signs that the fault was there.
func (s *Scene) Hit(what string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.hits {
		if s.hits[i].What == what {
			s.hits[i].Count += count
			return
		}
	}
	s.hits = append(s.hits, record.Hit{What: what, Count: count})
}

// Wrong notes that something is not as it must be, once in the same words.
func (s *Scene) Wrong(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.wrong, what) {
		s.wrong = append(s.wrong, what)
	}
}

// Silent notes that nobody can answer at a server, so that its callers' waiting is not the others'.
func (s *Scene) Silent(server *world.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent[server.Callers.Addr()] = true
}

// Last waits for as long as a fault lasts: so long in the short form, and so long as the matrix says.
func (s *Scene) Last(ctx context.Context, short, long time.Duration) error {
	if s.Long {
		short = long
	}
	return pause(ctx, short)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Victim is a server that may be hurt. The last one is where operators look.
func (s *Scene) Victim() *world.Server { return s.Servers[s.Rand.IntN(len(s.Servers)-1)] }

// refusals is how often Redis has answered with errors whose names begin so.
func (s *Scene) refusals(ctx context.Context, kind string) int {
	prefix := "errorstat_" + kind
	text, err := s.Client.Info(ctx, "errorstats").Result()
	if err != nil {
		return 0
	}
	total := 0
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		value = strings.TrimPrefix(value, "count=")
		n := 0
		for _, digit := range value {
			if digit < '0' || digit > '9' {
				break
			}
			n = 10*n + int(digit-'0')
		}
		total += n
	}
	return total
}

// Follow makes client the one that talks to what is Redis now.
func (s *Scene) Follow(client *goredis.Client) {
	_ = s.Client.Close() // its server is gone
	s.World.Client = client
}
