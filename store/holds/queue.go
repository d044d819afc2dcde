package holds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/budget"
)

// lane is a queue of its own, so that a flood of creates delays neither what buyers do with the
// holds they have nor the release of lapsed ones.
type lane string

const (
	laneCreate lane = "create" // new holds
	laneCaller lane = "caller" // whatever else a caller waits for
	laneFinish lane = "finish" // the ends of confirms
	laneUpkeep lane = "upkeep" // loops, adopts, walks
)

// queue is that of a lane in front of a server; each of a cluster's has its own, so that one which is slow or gone
// delays nothing at the others. Elsewhere there is one server, whichever is the master, and its address is left out.
type queue struct {
	lane lane
	addr string
}

// flow is what is first come, first served. In a lane the flows take turns, so that nobody waits for all that others ask of
// a hot group.
type flow struct{ script, group string }

// do queues o and waits for its result. The result is that of this call alone: nothing is retried
// but a call that Redis refused to run because it did not know the script.
func (s *Store) do(ctx context.Context, l lane, o *op) error {
	n, err := s.serverOf(o)
	if err != nil {
		return err
	}
	if l != laneUpkeep && n.silence.begun() {
		// Behind a batch that ends without an answer it would wait for a second one's. A decision has less time anyway.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout*9/8)
		defer cancel()
	}
	o.ctx, o.done = ctx, make(chan struct{})
	if err := s.enqueue(l, n, o); err != nil {
		return err
	}
	if err := budget.Wait(ctx, o.done); err != nil {
		return fmt.Errorf("%w: no answer in time: %w", store.ErrUnavailable, err)
	}
	if o.err != nil || o.past {
		return o.err
	}
	return gates(o)
}

// serverOf is the one in front of which o waits.
func (s *Store) serverOf(o *op) (*node, error) {
	if o.to != nil {
		return o.to, nil
	}
	return s.fleet.route(o.places[0].Group)
}

// enqueue puts o into a lane in front of n. Of a server that is known to be silent a lane has one batch under way, which finds out
// when it answers again, and one op that waits to be the next; who comes besides is told at once, and keeps nothing that
// requests for other servers need. A step of an adopt may wait: few adopts are under way, and one that fails is begun anew.
func (s *Store) enqueue(l lane, n *node, o *op) error {
	q := queue{lane: l}
	if s.fleet.target.kind == cluster {
		q.addr = n.addr
	}
	if n.silence.known() && !o.past && s.lanes.Waiting(q) > 0 {
		return n.silent()
	}
	if !s.lanes.Add(q, o.flow(), o) {
		s.metrics.full.Add(context.Background(), 1, s.metrics.lanes[l])
		return store.ErrQueueFull
	}
	return nil
}

// waiting is how many ops no batch of a lane has taken yet.
func (s *Store) waiting(l lane) int {
	if s.fleet.target.kind != cluster {
		return s.lanes.Waiting(queue{lane: l})
	}
	masters, _ := s.fleet.masters()
	all := 0
	for _, n := range masters {
		all += s.lanes.Waiting(queue{l, n.addr})
	}
	return all
}

// gates returns AdoptNeeded if the gate of one of o's allotments is shut.
func gates(o *op) error {
	var shut []store.Place
	for i, f := range o.facts {
		switch f.gate {
		case statusOK:
		case statusAdopt:
			shut = append(shut, o.places[i])
		default:
			return unknownFormat(o.places[i])
		}
	}
	if shut != nil {
		return &store.AdoptNeeded{Places: shut}
	}
	return nil
}

func unknownFormat(p store.Place) error {
	return fmt.Errorf("%w: allotment %s: its Redis state is in a format this release does not know",
		store.ErrUnavailable, p.Allotment)
}

// run sends a batch as one pipeline, one call for each script.
func (s *Store) run(q queue, ops []*op) {
	s.metrics.batch(q.lane, len(ops))
	calls := s.merge(ops)
	if len(calls) == 0 {
		return
	}
	if q.lane == laneCreate {
		s.asked.note(calls)
	}
	n, err := s.server(q, calls)
	if err != nil {
		fail(calls, err)
	} else {
		s.runOn(n, q.lane, calls)
	}
	for _, c := range calls {
		for _, o := range c.ops {
			if !s.sendOn(q.lane, o) {
				close(o.done)
			}
		}
	}
}

// server is the one in whose queue these calls waited.
func (s *Store) server(q queue, calls []*call) (*node, error) {
	if q.addr == "" {
		return s.fleet.route(calls[0].ops[0].places[0].Group)
	}
	return s.fleet.node(q.addr)
}

func (s *Store) runOn(n *node, l lane, calls []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeoutOf(l, n, calls)) // a batch belongs to many callers: none of their contexts may end it
	defer cancel()
	if l == laneCreate {
		if err := s.followed(ctx, n); err != nil {
			fail(calls, err)
			return
		}
	}
	unknown := s.send(ctx, n, calls)
	if len(unknown) > 0 {
		if err := s.loadScripts(ctx, n); err != nil {
			s.report(n, "load", err)
			fail(unknown, unavailable(err))
		} else if again := s.send(ctx, n, unknown); len(again) > 0 {
			fail(again, fmt.Errorf("%w: Redis forgot the scripts at once", store.ErrUnavailable))
		}
	}
	if again := inFull(calls); len(again) > 0 {
		fail(s.send(ctx, n, again), fmt.Errorf("%w: Redis forgot the scripts", store.ErrUnavailable))
	}
}

// timeoutOf is that of a batch. For a server that does not answer, background work has no longer than a look; but that it has, since a slow
// server would else seem silent for as long as it is slow.
func (s *Store) timeoutOf(l lane, n *node, calls []*call) time.Duration {
	switch {
	case l != laneUpkeep:
		return s.timeout
	case !n.silence.begun() && slices.ContainsFunc(calls, func(c *call) bool { return c.script != dueScript }):
		return max(upkeepTimeout, s.timeout)
	default:
		return max(lookTimeout, s.timeout)
	}
}

// together is what one call may do: of a cluster, what is in one slot; else what is asked of every group, as all are on
// one server: most of what a call with one line costs is the call.
type together struct {
	script, group string
	asking        bool
}

// merge makes the calls of a batch, in its order, leaving out ops whose caller has gone.
func (s *Store) merge(ops []*op) []*call {
	var calls []*call
	open := map[together]*call{}
	for _, o := range ops {
		if err := o.ctx.Err(); err != nil {
			o.err = err
			close(o.done)
			continue
		}
		if o.alone() {
			c := newCall(o.script)
			c.asking = o.asking
			c.add(o)
			calls = append(calls, c)
			continue
		}
		key := together{script: o.script, asking: o.asking}
		if s.fleet.target.kind == cluster {
			key.group = o.places[0].Group
		}
		c := open[key]
		if c == nil {
			c = newCall(o.script)
			c.asking = o.asking
			open[key] = c
			calls = append(calls, c)
		}
		c.add(o)
	}
	for _, c := range calls {
		c.brief = c.script == createScript && s.spent.all(c.places)
	}
	return calls
}

// send makes the calls and returns those that Redis did not run for want of the script.
func (s *Store) send(ctx context.Context, n *node, calls []*call) (unknown []*call) {
	pipe := n.client.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	proof := s.durable.open(ctx, s.fleet, n, pipe, calls)
	for i, c := range calls {
		keys, args := c.encode(s.clockOffset(), s.retention)
		if c.asking {
			announce(ctx, pipe)
		}
		replies[i] = pipe.EvalSha(ctx, s.scripts[c.script].SHA, keys, args...)
	}
	proof.ask(ctx, pipe)
	_, failure := pipe.Exec(ctx) // each reply has its own error, unless nothing was sent
	undecided := s.judge(n, proof, failure)
	for i, c := range calls {
		value, err := settle(replies[i], failure)
		switch {
		case refused(err, "NOSCRIPT"):
			unknown = append(unknown, c)
			continue
		case err != nil:
			s.report(n, c.script, err)
			s.blame(n, err)
			fail([]*call{c}, unavailable(err))
			s.redirect(n, c, err)
			continue
		}
		if err := c.decodeSafely(value); err != nil {
			s.log.Error("a script's reply cannot be read", slog.String("script", c.script), slog.Any("error", err))
			fail([]*call{c}, unavailable(err))
		}
		s.spent.note(c)
		n.silence.end()
		if undecided != nil && durableScripts[c.script] {
			fail([]*call{c}, undecided)
		}
	}
	return unknown
}

// settle is what came of a call in a pipeline that failed or did not. What scripts return is a list; one that was cut off the client makes
// a list that is nil.
func settle(reply *redis.Cmd, failure error) (any, error) {
	value, err := reply.Result()
	list, _ := value.([]any)
	switch {
	case list != nil || value != nil && err == nil:
		return value, nil // the client says of all of a pipeline that it failed when a later reply did not come in time
	case err == nil:
		return nil, failure // the client says nothing of a call that it had no connection for, as when the password is wrong
	default:
		return nil, err
	}
}

// refused says whether the server answered with an error of one of these kinds. (HasErrorPrefix of the
// client cuts off ERR before it looks.)
func refused(err error, kinds ...string) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	kind, _, _ := strings.Cut(answer.Error(), " ")
	return slices.Contains(kinds, kind)
}

func (s *Store) loadScripts(ctx context.Context, n *node) error {
	pipe := n.client.Pipeline()
	for _, script := range s.scripts {
		pipe.ScriptLoad(ctx, script.Source)
	}
	_, err := pipe.Exec(ctx)
	return err
}

func fail(calls []*call, err error) {
	for _, c := range calls {
		for _, o := range c.ops {
			o.err = err
		}
	}
}

// unavailable wraps whatever kept Redis from answering: the caller may repeat with the same ids.
func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if kind := rejectionOf(err); kind != "" {
		err = &store.Rejection{Store: "Redis", Kind: kind, Err: err}
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
}

// clockOffset is what a test adds to the server's clock.
func (s *Store) clockOffset() time.Duration {
	if s.offset == nil {
		return 0
	}
	return s.offset()
}
