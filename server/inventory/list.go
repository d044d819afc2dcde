package inventory

import (
	"context"
	"errors"
	"fmt"
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

// listPosition is where a walk over an allotment's holds goes on: the bucket, the cursor in it and
// the last hold given of what that cursor leads to.
type listPosition struct {
	bucket int
	cursor string
	after  string
}

func (p listPosition) String() string {
	return strconv.Itoa(p.bucket) + "/" + p.cursor + "/" + p.after
}

// ErrBadPage says that a page text is not one that ListHolds gave.
var ErrBadPage = errors.New("not a page of this listing")

func parsePosition(text string) (listPosition, error) {
	if text == "" {
		return listPosition{}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return listPosition{}, ErrBadPage
	}
	bucket, err := strconv.Atoi(parts[0])
	if err != nil || bucket < 0 {
		return listPosition{}, ErrBadPage
	}
	if _, err := strconv.ParseUint(parts[1], 10, 64); err != nil && parts[1] != "" {
		return listPosition{}, ErrBadPage
	}
	return listPosition{bucket: bucket, cursor: parts[1], after: parts[2]}, nil
}

// ListHolds returns up to limit of an allotment's remembered holds that match, and the page that
// goes on after them (empty: that is all). A hold that changes meanwhile is seen before or after.
func (v *Inventory) ListHolds(ctx context.Context, f store.HoldFilter, page string, limit int) ([]store.Hold, string, error) {
	at, err := parsePosition(page)
	if err != nil {
		return nil, "", &store.InvalidField{Field: "page_token", Problem: err.Error()}
	}
	p, err := v.places.place(ctx, f.Allotment)
	if err != nil {
		return nil, "", err
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
	cursors[0] = at.cursor
	var parts []store.Part
	err := v.adopted(ctx, func(ctx context.Context) (err error) {
		parts, err = v.redis.Scan(ctx, p, "", buckets, cursors)
		return err
	})
	if err != nil {
		return nil, at, err
	}
	var holds []store.Hold
	for _, part := range parts {
		found, full := listPart(part, f, &at, limit-len(holds))
		holds = append(holds, found...)
		if full || part.Next != "" {
			break
		}
	}
	return holds, at, nil
}

// listPart takes what matches from what one cursor led to, and moves the position on; true: the limit is reached.
func listPart(part store.Part, f store.HoldFilter, at *listPosition, limit int) ([]store.Hold, bool) {
	slices.SortFunc(part.Records, func(a, b store.Record) int { return strings.Compare(a.ID.Tag, b.ID.Tag) })
	var holds []store.Hold
	for _, r := range part.Records {
		h := r.Hold
		if h.ID.Tag <= at.after || h.BuyerID == "" || !matches(f, &h) {
			continue
		}
		holds = append(holds, h)
		if len(holds) == limit {
			at.after = h.ID.Tag
			return holds, true
		}
	}
	if part.Next == "" {
		*at = listPosition{bucket: at.bucket + 1}
	} else {
		*at = listPosition{bucket: at.bucket, cursor: part.Next}
	}
	return holds, false
}

// matches filters, and shows a hold that is due as LAPSED, as Get does.
func matches(f store.HoldFilter, h *store.Hold) bool {
	if h.State == store.Held && h.Remaining <= 0 {
		h.State, h.Remaining = store.Lapsed, 0
	}
	return (f.BuyerID == "" || f.BuyerID == h.BuyerID) && (len(f.States) == 0 || slices.Contains(f.States, h.State))
}
