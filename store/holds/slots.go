package holds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	slotCount = 1 << 14
	mostTags  = 1 << 20 // enough to find one for each slot
)

// slotOf is the slot of a cluster that a hash tag belongs to: CRC16 (XMODEM).
func slotOf(tag string) int {
	crc := uint16(0)
	for _, c := range []byte(tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}

// claim is a node's word on who has some slots.
type claim struct {
	first, last int
	addr        string
}

// voice is what some nodes say alike.
type voice struct {
	claims []claim
	by     []string // their addresses
}

// askNodes follows what most masters say of each slot: one that was cut off and does not know yet that it lost its slots
// is alone with that. An error: fewer than half of the masters answered.
func (f *fleet) askNodes(ctx context.Context) error {
	known := len(f.view.Load().masters) > 0
	err := f.pollNodes(ctx)
	if err != nil && !known { // the nodes of the URL may be few; by now the others are known
		err = f.pollNodes(ctx)
	}
	return err
}

func (f *fleet) pollNodes(ctx context.Context) error {
	voices, failure := f.hearNodes(ctx)
	if len(voices) == 0 {
		return fmt.Errorf("no node of the cluster says who has its slots: %w", failure)
	}
	e := countVotes(voices)
	err := f.follow(e.masters, func(v *view) {
		v.slots, v.votes, v.tags = e.owners, e.majority, map[*node]string{}
		for i, tag := range e.tags() {
			v.tags[v.masters[i]] = tag
		}
	})
	if err != nil {
		return err
	}
	if 2*len(e.voters) < len(e.masters) {
		return fmt.Errorf("%d of %d masters of the cluster answer, which is less than half: %w", len(e.voters), len(e.masters), failure)
	}
	return nil
}

// hearNodes asks the masters that are known and the nodes of the URL.
func (f *fleet) hearNodes(ctx context.Context) ([]voice, error) {
	addrs := slices.Clone(f.target.hosts)
	masters, _ := f.masters()
	for _, n := range masters {
		if !slices.Contains(addrs, n.addr) {
			addrs = append(addrs, n.addr)
		}
	}
	answers, failure := poll(ctx, addrs, max(1, len(masters)/2+1), f.askNode)
	var voices []voice
	for i, a := range answers {
		if a == nil {
			continue
		}
		same := slices.IndexFunc(voices, func(v voice) bool { return slices.Equal(v.claims, *a) })
		if same < 0 {
			voices = append(voices, voice{claims: *a})
			same = len(voices) - 1
		}
		voices[same].by = append(voices[same].by, addrs[i])
	}
	return voices, failure
}

// askNode fails if the node has heard of no slots, too.
func (f *fleet) askNode(ctx context.Context, addr string) (*[]claim, error) {
	n, err := f.node(addr)
	if err != nil {
		return nil, err
	}
	ranges, err := n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS came with 7.0, and has no order
	if refused(err, "NOPERM") {
		return nil, errors.New("the Redis user may not run CLUSTER SLOTS: grant +cluster|slots")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	asked, _, _ := net.SplitHostPort(addr) // it has a port
	claims := make([]claim, 0, len(ranges))
	for _, r := range ranges {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= slotCount {
			return nil, fmt.Errorf("%s: an answer that makes no sense", addr)
		}
		claims = append(claims, claim{r.Start, r.End, hostOr(r.Nodes[0].Addr, asked)})
	}
	slices.SortFunc(claims, func(a, b claim) int { return a.first - b.first })
	if len(claims) == 0 {
		return nil, fmt.Errorf("%s: knows of no slots", addr)
	}
	return &claims, nil
}

// hostOr puts in the host that was asked where a node does not say its own.
func hostOr(addr, asked string) string {
	if port, none := strings.CutPrefix(addr, ":"); none {
		return net.JoinHostPort(asked, port)
	}
	return addr
}

// election is who has each slot by what the nodes say.
type election struct {
	masters []string
	owners  []int16 // by slot: a number in masters, or noOwner
	voters  []string
	voices  []voice
}

func countVotes(voices []voice) *election {
	// The loudest first: it decides where there is no majority.
	slices.SortStableFunc(voices, func(a, b voice) int { return len(b.by) - len(a.by) })
	e := &election{owners: make([]int16, slotCount), voices: voices}
	number := map[string]int16{}
	owned := make([][]string, len(voices))
	for i, v := range voices {
		owned[i] = v.bySlot()
	}
	for slot := range e.owners {
		e.owners[slot] = noOwner
		most, owner := 0, ""
		for i := range voices {
			addr, votes := owned[i][slot], 0
			for j := range voices {
				if owned[j][slot] == addr {
					votes += len(voices[j].by)
				}
			}
			if addr != "" && votes > most {
				most, owner = votes, addr
			}
		}
		if owner == "" {
			continue
		}
		n, known := number[owner]
		if !known {
			n = int16(len(e.masters)) //nolint:gosec // a cluster has at most some 1,000 nodes
			number[owner] = n
			e.masters = append(e.masters, owner)
		}
		e.owners[slot] = n
	}
	for _, v := range voices {
		for _, addr := range v.by {
			if _, master := number[addr]; master {
				e.voters = append(e.voters, addr)
			}
		}
	}
	return e
}

func (v voice) bySlot() []string {
	owners := make([]string, slotCount)
	for _, c := range v.claims {
		for slot := c.first; slot <= c.last; slot++ {
			owners[slot] = c.addr
		}
	}
	return owners
}

// majority is who has a slot by the word of more than half of the masters; empty: there is no such word.
func (e *election) majority(slot int) string {
	votes := map[string]int{}
	for _, v := range e.voices {
		for _, c := range v.claims {
			if slot < c.first || slot > c.last {
				continue
			}
			for _, voter := range v.by {
				if slices.Contains(e.voters, voter) {
					votes[c.addr]++
				}
			}
		}
	}
	for addr, n := range votes {
		if 2*n > len(e.masters) {
			return addr
		}
	}
	return ""
}

// tags are hash tags, one on each master.
func (e *election) tags() []string {
	tags := make([]string, len(e.masters))
	for i, missing := 0, len(tags); missing > 0 && i < mostTags; i++ {
		tag := strconv.Itoa(i)
		if n := e.owners[slotOf(tag)]; n != noOwner && tags[n] == "" {
			tags[n] = tag
			missing--
		}
	}
	return tags
}

// movedTo is where a server sends a call that it did not run; asking says that it must be announced there with ASKING.
func movedTo(err error, from string) (addr string, asking, moved bool) {
	if !refused(err, "MOVED", "ASK") {
		return "", false, false
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 {
		return "", false, false
	}
	host, _, _ := net.SplitHostPort(from) // it has a port
	return hostOr(words[2], host), words[0] == "ASK", true
}

// announce makes a client say that it was sent here.
func announce(ctx context.Context, p redis.Pipeliner) { _ = p.Do(ctx, "asking") }
