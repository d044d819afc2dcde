package holds

import (
	"strconv"
	"strings"

	"github.com/holdfast-inventory/holdfast/store"
)

// Every key name of Holdfast in Redis is made here. All keys of a group carry its hash tag, so
// that a cluster keeps them on one server and a script may use them together; only the hint lies
// under the allotment's own.
//
//	hf:{group}:c[:allotment]           hash: format, time of the last look, an adopt under way, and the counters as one text
//	hf:{group}:d[:allotment]           sorted set: tags of live holds by deadline (ms)
//	hf:{group}:l[:allotment]           sorted set: tags of confirms under way by lease (ms)
//	hf:{group}:e[:allotment]           sorted set: tags of ended holds by when to forget them (ms)
//	hf:{group}:h[:allotment]:bucket    hash: buyers' entries by buyer key, each with the record of one
//	                                   hold of that buyer; records of other holds by tag
//	hf:{group}~tag[:allotment]         string with a TTL: the marker of a live hold
//	hf:{allotment}:h                   string: the allotment's group and number of buckets
//	hf:canary:random[{tag}]            string with a TTL: proves a replica's subscription alive
//	hf:batches[{tag}]                  string: counts batches, so that each writes something (see durability.go)
//
// The allotment is left out where it is the group: one allotment to a group is the default, and
// markers are many. The last two are on every master of a cluster, under a tag that leads there. A hold's tag is its 24 bytes, not its text.

const (
	keyPrefix  = "hf:{"
	markerPart = "}~"
)

func base(p store.Place, kind string) string {
	if p.Allotment == p.Group {
		return keyPrefix + p.Group + "}:" + kind
	}
	return keyPrefix + p.Group + "}:" + kind + ":" + p.Allotment
}

func allotmentKeys(keys []string, p store.Place) []string {
	return append(keys, base(p, "c"), base(p, "d"), base(p, "l"), base(p, "e"))
}

func holdsKey(p store.Place, bucket int) string { return base(p, "h") + ":" + strconv.Itoa(bucket) }

func markerKey(p store.Place, tag string) string { return markerOf(p, packTag(tag)) }

func markerOf(p store.Place, packed string) string {
	key := keyPrefix + p.Group + markerPart + packed
	if p.Allotment != p.Group {
		key += ":" + p.Allotment
	}
	return key
}

func holdKeys(keys []string, p store.Place, id store.HoldID) []string {
	return append(keys, holdsKey(p, id.Bucket(p.Buckets)), markerKey(p, id.Tag))
}

func hintKey(allotment string) string { return keyPrefix + allotment + "}:h" }

// batchesKey is one for each master.
const batchesKey = "hf:batches"

func canaryKey(random string) string { return "hf:canary:" + random }

// markerHold returns the hold that a marker key names; false for any other key.
func markerHold(key string) (store.HoldID, bool) {
	rest, ours := strings.CutPrefix(key, keyPrefix)
	allotment, rest, closed := strings.Cut(rest, markerPart)
	if !ours || !closed || len(rest) < rawTagBytes {
		return store.HoldID{}, false
	}
	tag, rest := rest[:rawTagBytes], rest[rawTagBytes:]
	if named, ok := strings.CutPrefix(rest, ":"); ok {
		allotment = named
	} else if rest != "" {
		return store.HoldID{}, false
	}
	return store.HoldID{Allotment: allotment, Tag: unpackTag(tag)}, store.ValidAllotmentID(allotment)
}
