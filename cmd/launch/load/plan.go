// Package load asks a server for holds as the buyers of a launch would, and keeps what it is told. An open loop sends
// at its rate whether or not answers come, as a crowd does; a closed loop sends when an answer has come.
package load

import (
	"encoding/hex"
	"math/bits"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// Crowd is who asks for what. The same crowd with the same seed asks for the same, in the same order.
type Crowd struct {
	Requests   int
	Duration   time.Duration // that they come in, evenly
	Two        float64       // share of buyers who ask for two units; the others ask for one
	Repeat     float64       // share of requests that repeat an earlier one, of the last second
	Completion float64       // share of buyers who pay for what they hold
	Window     time.Duration // how long a hold lasts
	Seed       uint64
}

// A buyer pays after this part of the window at the earliest and at the latest; sooner is likelier than later.
const (
	thinkLeast = 0.05
	ThinkMost  = 0.90
)

// What is drawn at random. Each has numbers of its own, so that changing one share changes nothing else.
const (
	drawRepeat = iota
	drawEarlier
	drawTwo
	drawPays
	drawThink1
	drawThink2
	drawBuyer
	drawRequest
	drawOrder
)

// Plan is a crowd with its requests put in order.
type Plan struct {
	Crowd
	buyers  []int32
	repeats []bool
	last    int32
}

// NewPlan puts the requests of a crowd in order.
func NewPlan(c Crowd) *Plan {
	p := &Plan{Crowd: c, buyers: make([]int32, c.Requests), repeats: make([]bool, c.Requests)}
	second := c.Requests
	if c.Duration > 0 {
		second = max(1, int(float64(c.Requests)/c.Duration.Seconds()))
	}
	for i := range p.buyers {
		if i > 0 && p.share(drawRepeat, i) < c.Repeat {
			earlier := i - 1 - int(p.share(drawEarlier, i)*float64(min(i, second)))
			p.buyers[i], p.repeats[i] = p.buyers[earlier], true
			continue
		}
		p.buyers[i] = p.last
		p.last++
	}
	return p
}

// Buyers is how many buyers there are.
func (p *Plan) Buyers() int { return int(p.last) }

// Intended is when request i is to be sent.
func (p *Plan) Intended(i int) time.Duration {
	high, low := bits.Mul64(uint64(p.Duration), uint64(i))   //nolint:gosec // neither is below 0
	quotient, _ := bits.Div64(high, low, uint64(p.Requests)) //nolint:gosec // not below 0
	return time.Duration(quotient)                           //nolint:gosec // less than Duration
}

// Units is how many buyer b asks for.
func (p *Plan) Units(b int32) int64 {
	if p.share(drawTwo, int(b)) < p.Two {
		return 2
	}
	return 1
}

// Pays tells whether buyer b pays, and how long after the hold.
func (p *Plan) Pays(b int32) (time.Duration, bool) {
	if p.share(drawPays, int(b)) >= p.Completion {
		return 0, false
	}
	// The smaller of two: twice as likely at the beginning, ever less likely towards the end.
	at := min(p.share(drawThink1, int(b)), p.share(drawThink2, int(b)))
	return time.Duration((thinkLeast + (ThinkMost-thinkLeast)*at) * float64(p.Window)), true
}

// Buyer is what buyer b asks with.
func (p *Plan) Buyer(b int32) history.Buyer {
	return history.Buyer{
		ID: p.uuid(drawBuyer, int(b)), Request: p.uuid(drawRequest, int(b)), Order: p.uuid(drawOrder, int(b)), Quantity: p.Units(b),
	}
}

// share draws a number from 0 to just below 1.
func (p *Plan) share(what, i int) float64 { return float64(p.draw(what, i)>>11) / (1 << 53) }

// draw is the i-th random number of its kind, by the finalizer of SplitMix64.
func (p *Plan) draw(what, i int) uint64 {
	z := p.Seed + 0x9e3779b97f4a7c15*(uint64(i)<<8|uint64(what)+1) //nolint:gosec // neither is below 0
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uuid writes an id as most checkouts have them.
func (p *Plan) uuid(what, i int) string {
	var raw [16]byte
	a, b := p.draw(what, 2*i), p.draw(what+100, 2*i+1)
	for n := range 8 {
		raw[n], raw[8+n] = byte(a>>(8*n)), byte(b>>(8*n)) //nolint:gosec // the lowest eight bits
	}
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	var text [36]byte
	hex.Encode(text[:8], raw[:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:], raw[10:])
	for _, n := range []int{8, 13, 18, 23} {
		text[n] = '-'
	}
	return string(text[:])
}
