package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-inventory/holdfast/store"
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
	for at.bucket < p.Buckets {
		var found []store.Hold
		found, at, err = v.listPart(ctx, p, f, at, limit-len(holds))
		var gone *retiredError
		if errors.As(err, &gone) {
			return holds, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("list holds: %w", err)
		}
		holds = append(holds, found...)
		if len(holds) >= limit && at.bucket < p.Buckets {
			return holds, at.String(), nil
		}
	}
	return holds, "", nil
}

// listPart reads what one cursor leads to, and returns where to go on.
func (v *Inventory) listPart(ctx context.Context, p store.Place, f store.HoldFilter, at listPosition, limit int) ([]store.Hold, listPosition, error) {
	var part store.Part
	err := v.adopted(ctx, func(ctx context.Context) error {
		parts, err := v.redis.Scan(ctx, p, "", false, []int{at.bucket}, []string{at.cursor})
		if err == nil {
			part = parts[0]
		}
		return err
	})
	if err != nil {
		return nil, at, err
	}
	slices.SortFunc(part.Records, func(a, b store.Record) int { return strings.Compare(a.ID.Tag, b.ID.Tag) })
	var holds []store.Hold
	for _, r := range part.Records {
		h := r.Hold
		if h.ID.Tag <= at.after || h.BuyerID == "" || !matches(f, &h) {
			continue
		}
		if len(holds) == limit {
			return holds, at, nil
		}
		holds = append(holds, h)
		if len(holds) == limit {
			next := at
			next.after = h.ID.Tag
			return holds, next, nil
		}
	}
	if part.Next == "" {
		return holds, listPosition{bucket: at.bucket + 1}, nil
	}
	return holds, listPosition{bucket: at.bucket, cursor: part.Next}, nil
}

// matches filters, and shows a hold that is due as LAPSED, as Get does.
func matches(f store.HoldFilter, h *store.Hold) bool {
	if h.State == store.Held && h.Remaining <= 0 {
		h.State, h.Remaining = store.Lapsed, 0
	}
	return (f.BuyerID == "" || f.BuyerID == h.BuyerID) && (len(f.States) == 0 || slices.Contains(f.States, h.State))
}
