package load

import (
	"sync/atomic"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

const (
	chunkSize = 1 << 12
	chunks    = 1 << 14 // 67 million calls in all
)

// calls keeps every call. One goroutine adds them; any may look one up that it knows the tag of.
type calls struct {
	chunks [chunks]atomic.Pointer[[chunkSize]history.Call]
	used   uint64
}

// add returns a new call and its tag.
func (c *calls) add() (uint64, *history.Call) {
	tag := c.used
	if tag%chunkSize == 0 {
		c.chunks[tag/chunkSize].Store(new([chunkSize]history.Call))
	}
	c.used++
	return tag, c.at(tag)
}

func (c *calls) at(tag uint64) *history.Call {
	return &c.chunks[tag/chunkSize].Load()[tag%chunkSize]
}

// all returns the calls in the order in which they were added.
func (c *calls) all() []*history.Call {
	all := make([]*history.Call, c.used)
	for tag := range all {
		all[tag] = c.at(uint64(tag))
	}
	return all
}
