package holds

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/holdfast-inventory/holdfast/store"
)

const createScript = "create"

// createItem is a request for holds on its way to the script, which takes all requests of a call in a few texts.
type createItem struct {
	store.CreateRequest
	ids []store.HoldID
}

const (
	lineBytes  = 8  // of a line
	fieldBytes = 32 // of its two fields: the buyer's and the hold's
)

// bucket is a hash of holds.
type bucket struct {
	allotment string
	number    int
}

// createBatch makes the texts of a call of the script create, as create.lua describes them, and its keys.
type createBatch struct {
	hashes  []string
	fields  [][]byte       // of each hash
	number  map[bucket]int // where in hashes, from 1
	brief   bool           // without markers and ids
	carts   bool           // some request has several lines
	markers []string

	owners, lines, counts []byte
	lengths, ids          []byte // of ids: how struct.unpack takes them apart
}

// encodeCreate gives the keys and the arguments behind the prelude's.
func (c *call) encodeCreate(keys []string, args []any) ([]string, []any) {
	b := &createBatch{
		number: map[bucket]int{}, brief: c.brief, carts: c.lines > len(c.ops), lines: make([]byte, 0, lineBytes*c.lines),
	}
	if !b.brief {
		b.markers, b.lengths, b.ids = make([]string, 0, c.lines), make([]byte, 0, 4*len(c.ops)), make([]byte, 0, 80*len(c.ops))
	}
	for _, o := range c.ops {
		b.add(o.create, c.number)
	}
	args = append(args, len(c.ops), c.lines, len(b.hashes), b.owners, b.lines, b.counts, b.lengths, b.ids)
	for _, fields := range b.fields {
		args = append(args, fields)
	}
	return append(append(keys, b.hashes...), b.markers...), args
}

func (b *createBatch) add(r *createItem, allotments map[string]int) {
	if b.carts {
		b.counts = append(b.counts, byte(len(r.Lines))) //nolint:gosec // at most 100
	}
	if !b.brief {
		b.addIDs(r)
	}
	for i, l := range r.Lines {
		quantity := l.Quantity
		if quantity < 0 || quantity > math.MaxUint32 {
			quantity = 0 // which is as impossible
		}
		tag := packTag(r.ids[i].Tag)
		hash := b.hash(l.Place, store.BuyerKey([]byte(tag[nameBytes:])), allotments[l.Allotment])
		fields := b.fields[hash-1]
		b.lines = binary.BigEndian.AppendUint16(b.lines, uint16(hash))                       //nolint:gosec // at most batchMost
		b.lines = binary.BigEndian.AppendUint16(b.lines, uint16(2*len(fields)/fieldBytes+1)) //nolint:gosec // likewise
		b.lines = binary.BigEndian.AppendUint32(b.lines, uint32(quantity))
		b.fields[hash-1] = append(append(fields, tag[nameBytes:]...), tag...)
		if !b.brief {
			b.markers = append(b.markers, markerOf(l.Place, tag))
		}
	}
}

// addIDs adds the ids of a request.
func (b *createBatch) addIDs(r *createItem) {
	from := len(b.ids)
	b.ids = appendText(appendText(b.ids, pack(r.BuyerID)), pack(r.RequestID))
	if cart := fingerprint(r.Lines); cart != "" {
		b.ids = appendText(b.ids, cart)
	}
	b.lengths = strconv.AppendInt(append(b.lengths, 'c'), int64(len(b.ids)-from), 10)
}

// appendText appends a text in MessagePack, in its shortest form, as the scripts write it.
func appendText(to []byte, text string) []byte {
	switch n := len(text); {
	case n < 32:
		to = append(to, 0xa0|byte(n))
	case n < 256:
		to = append(to, 0xd9, byte(n))
	default:
		to = binary.BigEndian.AppendUint16(append(to, 0xda), uint16(n)) //nolint:gosec // at most 128 characters
	}
	return append(to, text...)
}

// hash is where the key of a buyer's hash is among the hashes. owner is the number of its allotment.
func (b *createBatch) hash(p store.Place, buyer store.BuyerKey, owner int) int {
	at := bucket{p.Allotment, buyer.Bucket(p.Buckets)}
	n, known := b.number[at]
	if !known {
		b.hashes, b.fields = append(b.hashes, holdsKey(p, at.number)), append(b.fields, nil)
		b.owners = binary.BigEndian.AppendUint16(b.owners, uint16(owner)) //nolint:gosec // at most batchMost
		n = len(b.hashes)
		b.number[at] = n
	}
	return n
}
