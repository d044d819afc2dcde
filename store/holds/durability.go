package holds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
)

// Durability is what must be so before a decision is answered. The zero value: nothing but that Redis has made it.
type Durability struct {
	Fsync    bool // it is on the disk of the server; CheckSettings refuses a server that does not do so by itself
	Replicas int  // so many replicas have it
}

const mostReplicas = 16

var errDurability = fmt.Errorf("must be none, fsync, or replicas:N with N from 1 to %d", mostReplicas)

// ParseDurability reads none, fsync or replicas:N.
func ParseDurability(text string) (Durability, error) {
	switch text {
	case "none":
		return Durability{}, nil
	case "fsync":
		return Durability{Fsync: true}, nil
	}
	number, ok := strings.CutPrefix(text, "replicas:")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > mostReplicas {
		return Durability{}, errDurability
	}
	return Durability{Replicas: n}, nil
}

// durableScripts decide what callers rely on. What others write can be done again.
var durableScripts = map[string]bool{createScript: true, "extend": true, "cancel": true, "begin": true}

// proof is that the replicas have what a batch wrote. Each batch writes, as it counts the batches: so a refusal, too, is only
// answered by a server that its replicas still follow. It proves as much of everything that the server wrote before.
// On a cluster it counts under keys of two slots: while one of them moves, what is written under the other is proof enough.
type proof struct {
	replicas int
	counts   []*redis.IntCmd
	acks     *redis.Cmd
	failure  error // of the pipeline
}

var (
	errUnacknowledged = errors.New("undecided: not enough replicas have acknowledged the batch in time")
	errNoSlots        = errors.New("the server has no slots")
)

// open puts the count of the batch in front of its calls. Nil: nothing needs to be proved.
func (d Durability) open(ctx context.Context, f *fleet, n *node, pipe redis.Pipeliner, calls []*call) *proof {
	if d.Replicas == 0 {
		return nil
	}
	for _, c := range calls {
		if durableScripts[c.script] {
			return d.count(ctx, f, n, pipe)
		}
	}
	return nil
}

// count counts a batch.
func (d Durability) count(ctx context.Context, f *fleet, n *node, pipe redis.Pipeliner) *proof {
	p := &proof{replicas: d.Replicas}
	for _, key := range f.keysOn(n, batchesKey) {
		p.counts = append(p.counts, pipe.Incr(ctx, key))
	}
	return p
}

// followed returns nil if n's replicas have what is written to it, so that new holds may be. What they take stands, and would be
// kept from others for nobody, if nobody can be told that he has it: so while there is no proof, only an empty batch goes first.
func (s *Store) followed(ctx context.Context, n *node) error {
	if !n.alone.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout/2) // or nothing was left for the batch itself
	defer cancel()
	pipe := n.client.Pipeline()
	p := s.durable.count(ctx, s.fleet, n, pipe)
	p.ask(ctx, pipe)
	_, failure := pipe.Exec(ctx)
	undecided := s.judge(n, p, failure)
	if err := p.unwritten(); err != nil {
		s.report(n, "count", err)
		s.blame(n, err)
		return unavailable(err)
	}
	n.silence.end()
	return undecided
}

// judge says what a proof is missing, and notes it of its server.
func (s *Store) judge(n *node, p *proof, failure error) error {
	if p == nil {
		return nil
	}
	p.failure = failure
	if p.moved() {
		s.fleet.suspect()
	}
	err := p.missing()
	n.alone.Store(err != nil)
	if err != nil && p.unwritten() == nil {
		s.tell(n, "wait", rejectionUnacknowledged, err)
	}
	return err
}

// ask puts the question behind the calls: on the same connection, whose writes it is about. The server looks at the
// time that it is given only now and then, so the deadline of the batch is what ends the wait.
func (p *proof) ask(ctx context.Context, pipe redis.Pipeliner) {
	if p == nil {
		return
	}
	deadline, _ := ctx.Deadline() // a batch has one
	p.acks = pipe.Do(ctx, "wait", p.replicas, max(1, time.Until(deadline).Milliseconds()))
}

// missing is nil if there is proof. What was written without it stands at this server, and may be lost with it: a repeat
// with the same ids tells.
func (p *proof) missing() error {
	if err := p.unwritten(); err != nil {
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errUnacknowledged, err)
	}
	acks, err := p.acks.Int()
	switch {
	case err == nil && acks >= p.replicas:
		return nil
	case err != nil:
		err = fmt.Errorf("%w: %w", errUnacknowledged, err)
	default:
		err = fmt.Errorf("%w: %d of %d", errUnacknowledged, acks, p.replicas)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, &store.Rejection{Store: "Redis", Kind: rejectionUnacknowledged, Err: err})
}

// unwritten is why nothing was written in front of the batch; nil: something was.
func (p *proof) unwritten() error {
	err := errNoSlots
	for _, count := range p.counts {
		if count.Val() > 0 { // also if the client says that it failed, since a later reply did not come in time
			return nil
		}
		if err = count.Err(); err == nil {
			err = p.failure // nor does it say anything of a call that it had no connection for
		}
	}
	return err
}

// moved says that the server does not have all the slots any more that it was taken to have.
func (p *proof) moved() bool {
	return p != nil && slices.ContainsFunc(p.counts, func(c *redis.IntCmd) bool { return refused(c.Err(), "MOVED") })
}
