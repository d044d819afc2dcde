package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// ErrBadHoldID says that a text is not a hold id of this service.
var ErrBadHoldID = errors.New("not a hold id: want ALLOTMENT.TAG as CreateHold returned it")

const (
	digestBytes = 16 // 128 bits of SHA-256 over (allotment, buyer, request id)
	buyerBytes  = 8  // 64 bits of SHA-256 over (allotment, buyer)
	tagBytes    = digestBytes + buyerBytes
	tagChars    = 32 // base64url of 24 bytes
)

// HoldID names a hold: its allotment and a tag derived from (allotment, buyer, request id).
//
// The tag is 128 bits of SHA-256 over the three parts, each preceded by its length, and then
// 64 bits of SHA-256 over allotment and buyer, the buyer's key: it tells the scripts that know
// only the id where the buyer's entry is.
type HoldID struct {
	Allotment string
	Tag       string
}

// NewHoldID derives the id of the hold that this buyer's request makes at this allotment.
func NewHoldID(allotment, buyer, request string) HoldID {
	var tag [tagBytes]byte
	hold, key := digest(allotment, buyer, request), NewBuyerKey(allotment, buyer)
	copy(tag[:digestBytes], hold[:])
	copy(tag[digestBytes:], key[:])
	return HoldID{Allotment: allotment, Tag: base64.RawURLEncoding.EncodeToString(tag[:])}
}

// ParseHoldID reads the text form. It returns ErrBadHoldID for a text that String never gives.
func ParseHoldID(text string) (HoldID, error) {
	allotment, tag, found := strings.Cut(text, ".")
	if !found || !ValidAllotmentID(allotment) || len(tag) != tagChars {
		return HoldID{}, ErrBadHoldID
	}
	if raw, err := base64.RawURLEncoding.DecodeString(tag); err != nil || len(raw) != tagBytes {
		return HoldID{}, ErrBadHoldID
	}
	return HoldID{Allotment: allotment, Tag: tag}, nil
}

// String is the text form that callers see.
func (id HoldID) String() string { return id.Allotment + "." + id.Tag }

// Bucket is the number of the hash, of n, that keeps this hold's record and its buyer's entry.
func (id HoldID) Bucket(n int) int { return id.BuyerKey().Bucket(n) }

// BuyerKey is the buyer's.
func (id HoldID) BuyerKey() BuyerKey {
	raw, err := base64.RawURLEncoding.DecodeString(id.Tag)
	if err != nil || len(raw) != tagBytes {
		return BuyerKey{}
	}
	return BuyerKey(raw[digestBytes:])
}

// BuyerKey names a buyer at an allotment in Redis, where its id is not known: 64 bits of SHA-256 over allotment and
// buyer, each preceded by its length. Two buyers of one key, which nobody has seen, would share a limit.
type BuyerKey [buyerBytes]byte

// NewBuyerKey is the key of a buyer at an allotment.
func NewBuyerKey(allotment, buyer string) BuyerKey {
	sum := digest(allotment, buyer)
	return BuyerKey(sum[:buyerBytes])
}

// Bucket is the number of the hash, of n, that keeps this buyer's entry and holds.
func (k BuyerKey) Bucket(n int) int { return int(binary.BigEndian.Uint16(k[:])) & (n - 1) }

// BucketsFor is how many hashes of holds an allotment of this capacity gets: at most about 8,192 live holds each. Few,
// so that a batch reads all of them at once, and none so large that Redis takes long to grow it.
func BucketsFor(capacity int64) int {
	n := 1
	for n < 65536 && int64(n)*8192 < capacity {
		n *= 2
	}
	return n
}

// ValidAllotmentID says whether id matches [a-z0-9][a-z0-9-]{0,62}.
func ValidAllotmentID(id string) bool {
	if id == "" || len(id) > 63 || id[0] == '-' {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// digest is the SHA-256 of parts that are each preceded by their length.
func digest(parts ...string) [sha256.Size]byte {
	text := make([]byte, 0, 512) // on the stack
	for _, part := range parts {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part))) //nolint:gosec // ids are at most 128 characters
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}
