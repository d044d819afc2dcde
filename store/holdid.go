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
	tagBytes    = digestBytes + 2
	tagChars    = 24 // base64url of 18 bytes, without padding
)

// HoldID names a hold: its allotment and a tag derived from (allotment, buyer, request id).
//
// The tag is 128 bits of SHA-256 over the three parts, each preceded by its length, and then
// 16 bits of SHA-256 over allotment and buyer. The last two bytes let the scripts that know
// only the id declare the key of the buyer's totals before they run.
type HoldID struct {
	Allotment string
	Tag       string
}

// NewHoldID derives the id of the hold that this buyer's request makes at this allotment.
func NewHoldID(allotment, buyer, request string) HoldID {
	var tag [tagBytes]byte
	copy(tag[:digestBytes], digest(allotment, buyer, request))
	copy(tag[digestBytes:], digest(allotment, buyer))
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

// Bucket is the number of the hash, of n, that keeps this hold's record.
func (id HoldID) Bucket(n int) int { return id.number(0) & (n - 1) }

// BuyerBucket is the number of the hash, of n, that keeps the totals of this hold's buyer.
func (id HoldID) BuyerBucket(n int) int { return id.number(digestBytes) & (n - 1) }

func (id HoldID) number(at int) int {
	raw, err := base64.RawURLEncoding.DecodeString(id.Tag)
	if err != nil || len(raw) != tagBytes {
		return 0
	}
	return int(binary.BigEndian.Uint16(raw[at:]))
}

// BuyerBucket is the number of the hash, of n, that keeps a buyer's totals at an allotment.
func BuyerBucket(allotment, buyer string, n int) int {
	return int(binary.BigEndian.Uint16(digest(allotment, buyer))) & (n - 1)
}

// BucketsFor is how many record hashes an allotment of this capacity gets: about 32 live holds
// each, so that Redis keeps them in its compact form (up to 512 fields by default), and never so
// few that a day's ended holds crowd them.
func BucketsFor(capacity int64) int {
	n := 16
	for n < 65536 && int64(n)*32 < capacity {
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

func digest(parts ...string) []byte {
	h := sha256.New()
	var size [4]byte
	for _, part := range parts {
		binary.BigEndian.PutUint32(size[:], uint32(len(part))) //nolint:gosec // ids are at most 128 characters
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}
