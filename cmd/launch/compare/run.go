package compare

import (
	"context"
	"errors"

	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
)

// runWay plays the demand through one way.
func runWay(ctx context.Context, w way, e *env) (_ row, err error) {
	s, err := w.open(ctx, e)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := warmUp(ctx, s, e.settings); err != nil {
		return row{}, err
	}
	c := e.settings
	if err := s.restock(ctx, c.Capacity); err != nil {
		return row{}, err
	}
	d := demand{Seed: c.Seed, Requests: c.Requests}
	pids := e.pids(w, s)
	watch := machine.NewWatch(nil)
	start := watch.Read()
	before, known := spentBy(pids)
	answers, err := s.ask(ctx, d)
	if err != nil {
		return row{}, err
	}
	after, still := spentBy(pids)
	steal := watch.Read().Since(start).Steal
	t, err := count(c.Capacity, c.Requests, answers)
	if err != nil {
		return row{}, err
	}
	r := newRow(w, t)
	if known && still {
		r.CPU = perDecision(after-before, t.Decisions)
	}
	if steal != nil {
		r.Steal = 100 * *steal
	}
	r.Note, err = s.audit(ctx, t)
	return r, err
}

// warmUp opens the connections and has everything done once, with a stock and buyers of its own, so that no way pays for it.
func warmUp(ctx context.Context, s shop, c *Command) error {
	const rounds = 8
	if err := s.restock(ctx, int64(c.Workers)*rounds); err != nil {
		return err
	}
	_, err := s.ask(ctx, demand{Seed: c.Seed, Requests: c.Workers * rounds})
	return err
}

// pids are the servers that this way works with; nil if one of them is not ours, so that its CPU is not known.
func (e *env) pids(w way, s shop) []int {
	all := []int{}
	for _, server := range w.uses {
		pid := e.stores.pids[server]
		if own, ok := s.(interface{ server() *program.Child }); ok && server == usesHoldfast && own.server() != nil {
			pid = own.server().PID()
		}
		if pid == 0 {
			return nil
		}
		all = append(all, pid)
	}
	return all
}
