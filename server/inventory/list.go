package inventory

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	listTime    = time.Second // after which a page is given that is not full, or even empty
	listBuckets = 8           // hashes read in one call
)

// listPosition is where a walk over an allotment's holds goes on: in a bucket at a cursor (0: its start). If a page
// ended within what that cursor led to, it goes on there after a tag, and then at next (0: the bucket's end).
//
// What a cursor leads to changes with the hash between two pages: it is more when holds have gone, less when some
// have come. A hold that only then came into it may have a tag before the last one given; it is found from next on,
// where the walk would have gone on had the page not ended.
type listPosition struct {
	bucket       int
	cursor, next uint64
	after        string // tag
}

func (p listPosition) String() string {
	return fmt.Sprintf("%d/%d/%d/%s", p.bucket, p.cursor, p.next, p.after)
}

// ErrBadPage says that a page text is not one that ListHolds gave.
var ErrBadPage = errors.New("not a next_page_token of this listing")

// parsePosition reads what String gives. Empty: the start.
func parsePosition(text string, p store.Place) (at listPosition, err error) {
	if text == "" {
		return at, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 4 {
		return at, ErrBadPage
	}
	var errs [4]error
	at.bucket, errs[0] = strconv.Atoi(parts[0])
	at.cursor, errs[1] = strconv.ParseUint(parts[1], 10, 64)
	at.next, errs[2] = strconv.ParseUint(parts[2], 10, 64)
	if at.after = parts[3]; at.after != "" {
		_, errs[3] = store.ParseHoldID(store.HoldID{Allotment: p.Allotment, Tag: at.after}.String())
	}
	if errors.Join(errs[:]...) != nil || at.bucket < 0 || at.bucket >= p.Buckets || at.String() != text {
		return at, ErrBadPage
	}
	return at, nil
}

// earlier is the cursor that a walk comes to first. Redis counts them up from their highest bit, so that they keep
// their order when a hash grows or shrinks; 0 is the end.
func earlier(a, b uint64) uint64 {
	if bits.Reverse64(a)-1 < bits.Reverse64(b)-1 {
		return a
	}
	return b
}

// ListHolds returns up to limit of an allotment's remembered holds that match, and the page that
// goes on after them (empty: that is all). A hold that changes meanwhile is seen before or after.
func (v *Inventory) ListHolds(ctx context.Context, f store.HoldFilter, page string, limit int) ([]store.Hold, string, error) {
	p, err := v.places.place(ctx, f.Allotment)
	if err != nil {
		return nil, "", err
	}
	at, err := parsePosition(page, p)
	if err != nil {
		return nil, "", &store.InvalidField{Field: "page_token", Problem: err.Error()}
	}
	var holds []store.Hold
	for until := time.Now().Add(listTime); at.bucket < p.Buckets; {
		var found []store.Hold
		found, at, err = v.listParts(ctx, p, f, at, limit-len(holds))
		var gone *retiredError
		if errors.As(err, &gone) {
			return holds, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("list holds: %w", err)
		}
		holds = append(holds, found...)
		if at.bucket < p.Buckets && (len(holds) >= limit || time.Now().After(until)) {
			return holds, at.String(), nil
		}
	}
	return holds, "", nil
}

// listParts reads some buckets from a position on, and returns where to go on.
func (v *Inventory) listParts(ctx context.Context, p store.Place, f store.HoldFilter, at listPosition, limit int) ([]store.Hold, listPosition, error) {
	var buckets []int
	var cursors []string
	for i := at.bucket; i < min(at.bucket+listBuckets, p.Buckets); i++ {
		buckets, cursors = append(buckets, i), append(cursors, "")
	}
	cursors[0] = strconv.FormatUint(at.cursor, 10)
	var parts []store.Part
	err := v.adopted(ctx, func(ctx context.Context) (err error) {
		parts, err = v.redis.Scan(ctx, p, "", buckets, cursors)
		return err
	})
	if err != nil {
		return nil, at, err
	}
	var holds []store.Hold
	for i, part := range parts {
		found, err := listPart(part, f, &at, limit-len(holds))
		if err != nil {
			return nil, at, err
		}
		holds = append(holds, found...)
		if at.bucket == buckets[i] { // there is more in it
			break
		}
	}
	return holds, at, nil
}

// listPart takes what matches from what one cursor led to, up to the limit, and moves the position on.
func listPart(part store.Part, f store.HoldFilter, at *listPosition, limit int) ([]store.Hold, error) {
	var next uint64
	if part.Next != "" {
		var err error
		if next, err = strconv.ParseUint(part.Next, 10, 64); err != nil {
			return nil, fmt.Errorf("cursor: %w", err)
		}
	}
	if at.after != "" {
		next = earlier(next, at.next)
	}
	slices.SortFunc(part.Records, func(a, b store.Record) int { return strings.Compare(a.ID.Tag, b.ID.Tag) })
	var holds []store.Hold
	for _, r := range part.Records {
		h := r.Hold
		if h.ID.Tag <= at.after || h.BuyerID == "" || !matches(f, &h) {
			continue
		}
		holds = append(holds, h)
		if len(holds) == limit {
			at.after, at.next = h.ID.Tag, next
			return holds, nil
		}
	}
	*at = listPosition{bucket: at.bucket, cursor: next}
	if next == 0 {
		at.bucket++
	}
	return holds, nil
}

// matches filters, and shows a hold that is due as LAPSED, as Get does.
func matches(f store.HoldFilter, h *store.Hold) bool {
	if h.State == store.Held && h.Remaining <= 0 {
		h.State, h.Remaining = store.Lapsed, 0
	}
	return (f.BuyerID == "" || f.BuyerID == h.BuyerID) && (len(f.States) == 0 || slices.Contains(f.States, h.State))
}
