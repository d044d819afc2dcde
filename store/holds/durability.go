package holds

import (
	"context"
	"errors"
	"fmt"
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
type proof struct {
	replicas int
	counted  *redis.IntCmd
	acks     *redis.Cmd
}

var errUnacknowledged = errors.New("undecided: not enough replicas have acknowledged the batch in time")

// open puts the count of the batch in front of its calls. Nil: nothing needs to be proved.
func (d Durability) open(ctx context.Context, f *fleet, n *node, pipe redis.Pipeliner, calls []*call) *proof {
	if d.Replicas == 0 {
		return nil
	}
	for _, c := range calls {
		if !durableScripts[c.script] {
			continue
		}
		p := &proof{replicas: d.Replicas}
		if key, ok := f.keyOn(n, batchesKey); ok {
			p.counted = pipe.Incr(ctx, key)
		}
		return p
	}
	return nil
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
	if p == nil {
		return nil
	}
	err := errUnacknowledged
	if p.counted == nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	acks, failure := p.acks.Int()
	if failure == nil {
		failure = p.counted.Err()
	}
	if failure == nil && acks >= p.replicas {
		return nil
	}
	if failure != nil {
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, err, failure)
	}
	return fmt.Errorf("%w: %w: %d of %d", store.ErrUnavailable, err, acks, p.replicas)
}
