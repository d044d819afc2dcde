package inventory

import "time"

// clockJump is by how much Redis's clock may differ between two readings from what this host's monotonic clock says
// has passed. A clock that is slewed moves by less than a millisecond in the second between two looks.
const clockJump = time.Second

// clocksMost is how many servers' clocks are remembered; a cluster has no more masters.
const clocksMost = 1000

// clocks are those of the servers of Redis, by their identities: the hosts of a cluster may differ.
type clocks map[string]*clock

// read is read of the clock of a server that has an allotment now. before is the one that had it: a new server is held against
// that one's clock, by which the deadlines were set.
func (c clocks) read(server, before string, r reading) time.Duration {
	its := c[server]
	if its == nil {
		its = new(clock)
		if old := c[before]; old != nil {
			*its = *old
		}
		if len(c) >= clocksMost {
			clear(c)
		}
		c[server] = its
	}
	return its.read(r)
}

// clock compares the time of a Redis with this host's monotonic clock.
type clock struct{ last reading }

// reading is a time that Redis told; it was so at some moment between sent and received.
type reading struct{ redis, sent, received time.Time }

// read returns by how much, at least, Redis's clock has jumped since the last reading, or 0. A reading that took long says
// too little, one that was asked for before the last had come may be the older one.
func (c *clock) read(r reading) time.Duration {
	if r.received.Sub(r.sent) > clockJump || r.sent.Before(c.last.received) {
		return 0
	}
	last := c.last
	c.last = r
	if last.redis.IsZero() {
		return 0
	}
	passed := r.redis.Sub(last.redis)
	least, most := r.sent.Sub(last.received), r.received.Sub(last.sent)
	switch {
	case passed > most+clockJump:
		return passed - most
	case passed < least-clockJump:
		return passed - least
	}
	return 0
}
