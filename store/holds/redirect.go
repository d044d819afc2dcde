package holds

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Not run means not run: what a server refused to run may be sent again, unlike what it did not answer.
const (
	mostSent   = 16                    // times, then the caller is told that nothing is known
	whileMoves = 10 * time.Millisecond // between two tries while the keys of a slot are under way
)

// blame notes that a server did not answer, or is not what it was taken for, which calls for a look at who is master. One that answers
// with an error is not silent.
func (s *Store) blame(n *node, err error) {
	var answer redis.Error
	if !errors.As(err, &answer) {
		n.silence.note(time.Now())
		s.fleet.suspect()
		return
	}
	n.silence.end()
	if refused(err, "READONLY", "MASTERDOWN", "LOADING", "NOREPLICAS", "MOVED", "CLUSTERDOWN") {
		s.fleet.suspect()
	}
}

// redirect notes where the ops of a call that was not run are to be sent.
func (s *Store) redirect(from *node, c *call, err error) {
	addr, asking, moved := movedTo(err, from.addr)
	if !moved && !refused(err, "TRYAGAIN") {
		return
	}
	var to *node
	if moved {
		if to, err = s.fleet.node(addr); err != nil {
			return
		}
	}
	for _, o := range c.ops {
		o.to, o.asking, o.again = to, asking, true
		o.sent++
	}
}

// sendOn puts an op into the queue of the server that it was sent on to. False: it is done. An op that met keys under way
// goes back, after a moment, to where it came from.
func (s *Store) sendOn(l lane, o *op) bool {
	if !o.again || o.sent >= mostSent || o.ctx.Err() != nil {
		return false
	}
	o.again = false
	last := o.err
	requeue := func() {
		o.err, o.reply, o.facts = nil, nil, nil
		n, err := s.serverOf(o)
		if err == nil {
			err = s.enqueue(l, n, o)
		}
		if err != nil {
			o.err = last
			close(o.done)
		}
	}
	if o.to == nil {
		time.AfterFunc(whileMoves, requeue)
	} else {
		requeue()
	}
	return true
}
