package holds

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
)

const mostBuckets = 1 << 16 // a bucket's number is 16 bits of the tag

// Place implements store.Places.
func (s *Store) Place(ctx context.Context, allotment string) (store.Place, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text, err := s.client.Get(ctx, hintKey(allotment)).Result()
	if errors.Is(err, redis.Nil) {
		return store.Place{}, false, nil
	}
	if err != nil && !refused(err, "WRONGTYPE") {
		return store.Place{}, false, unavailable(err)
	}
	group, number, _ := strings.Cut(text, " ")
	buckets, err := strconv.Atoi(number)
	if err != nil || !store.ValidAllotmentID(group) || buckets < 1 || buckets > mostBuckets || buckets&(buckets-1) != 0 {
		s.log.Error(fmt.Sprintf("the key %s is damaged: it must be a group and a power of two", hintKey(allotment)))
		return store.Place{}, false, nil // the ledger knows it too
	}
	return store.Place{Allotment: allotment, Group: group, Buckets: buckets}, true, nil
}

// SetPlace implements store.Places.
func (s *Store) SetPlace(ctx context.Context, p store.Place) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	value := p.Group + " " + strconv.Itoa(p.Buckets)
	if err := s.client.Set(ctx, hintKey(p.Allotment), value, 0).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}
