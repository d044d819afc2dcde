package store

import (
	"context"
	"time"
)

// Confirm is one cart, or one hold, brought to the ledger step.
type Confirm struct {
	OrderID string // empty for a shrink
	Lines   []ConfirmLine
}

// ConfirmLine is one hold of a Confirm, as confirm-begin or a claim found it.
type ConfirmLine struct {
	ID         HoldID
	BuyerID    string
	RequestID  string
	Quantity   int64 // units to sell; for a shrink, units to take off the capacity
	Held       int64 // units of the hold when it was created; kept, like Cart and CreateTime, for repeats
	Cart       string
	Token      Token // the hold's creation token
	Epoch      int64 // the epoch under which the begin or the claim ran
	CreateTime time.Time
	Gone       bool // its hold no longer exists as CONFIRMING: the cart must be refused
	Shrink     bool // SOLD lowers capacity instead of raising sold
}

// VerdictKind is what the ledger step said of a line.
type VerdictKind int

// The verdicts. Only Stale leaves no row behind.
const (
	VerdictSold VerdictKind = iota + 1
	VerdictRefusedOrder
	VerdictRefusedRoom
	VerdictRefusedCart
	VerdictStale
)

// Verdict is the ledger's word on one line. With VerdictSold, Sale is the row as it stands,
// whichever confirm made it: its order id and token may be others than the line's.
type Verdict struct {
	Kind  VerdictKind
	Sale  Sale   // with VerdictSold
	Token Token  // creation token in the outcome row (SOLD and REFUSED)
	Other string // with VerdictRefusedOrder: the hold under which the order bought before
}

// Outcome is a row of the ledger's outcomes: how a hold that reached the ledger ended.
type Outcome struct {
	ID         HoldID
	Verdict    Verdict
	BuyerID    string
	RequestID  string
	OrderID    string
	Quantity   int64
	Held       int64 // as the ConfirmLine said, like Cart and CreateTime
	Cart       string
	CreateTime time.Time
	Shrink     bool
	DecidedAt  time.Time
}

// Settler is the ledger step.
type Settler interface {
	// Settle decides one Confirm in a transaction that it shares with others of the group; one
	// verdict a line, in order. A repeat gets the same verdicts, except that Stale and another
	// token's refusal are judged anew. ErrUnavailable: the result is not known; the outcome row
	// decides. A dead ctx before the transaction is sent: nothing was done.
	Settle(ctx context.Context, group string, c Confirm) ([]Verdict, error)

	// Down says that the ledger is known not to answer: every call is ErrUnavailable at once.
	Down() bool
}

// CancelSale asks to take back (a part of) a sale.
type CancelSale struct {
	ID        HoldID
	RequestID string
	Quantity  int64 // 0: all that is left
}

// Sales reads and cancels sales.
type Sales interface {
	// Sale returns the sale of a hold, or a SaleNotFound refusal.
	Sale(ctx context.Context, id HoldID) (Sale, error)
	// CancelSale takes the units off sold and notes their return in the feed; the number is that
	// of the feed (0: the allotment is retired, nothing is to be applied). A repeat of the request
	// id returns the sale as it is now and the first number; with another quantity it is
	// RequestMismatch. Refusals: SaleNotFound, SaleCancelled; InvalidField when more than is left.
	CancelSale(ctx context.Context, c CancelSale) (Sale, int64, error)
	// ListSales returns up to limit sales that match, in the order of their hold ids, after the given one.
	ListSales(ctx context.Context, f SaleFilter, after string, limit int) ([]Sale, error)
	// Outcomes returns the rows that exist for these holds of one allotment, by tag.
	Outcomes(ctx context.Context, allotment string, tags []string) (map[string]Outcome, error)
}

// SaleFilter narrows ListSales; empty fields match all.
type SaleFilter struct{ Allotment, BuyerID, OrderID string }

// Adjustment is a change of capacity under a request id.
type Adjustment struct {
	Allotment string
	RequestID string
	Delta     int64
	Feed      int64 // of a growth; 0 for a shrink
}

// Allotments keeps the allotments and what changes them.
type Allotments interface {
	// CreateAllotment inserts a; epoch 0 until adopted. The same content again returns the row,
	// other content is refused as AllotmentExists.
	CreateAllotment(ctx context.Context, a Allotment) (Allotment, error)
	// Allotment returns the row, or an AllotmentNotFound refusal.
	Allotment(ctx context.Context, id string) (Allotment, error)
	// ListAllotments returns up to limit rows in the order of their ids, after the given one.
	ListAllotments(ctx context.Context, after string, limit int) ([]Allotment, error)
	// UpdateRules replaces the rules if version is the row's, else StaleEtag. The change takes the
	// next feed number. State OPEN or PAUSED ends retirement.
	UpdateRules(ctx context.Context, id string, version int64, r Rules) (Allotment, error)
	// Adjustment returns the adjustment made under this request id, found or not.
	Adjustment(ctx context.Context, allotment, request string) (Adjustment, bool, error)
	// Grow raises the capacity by a.Delta under the next feed number. A repeat returns the first
	// result; with another delta it is RequestMismatch. InvalidField above MaxCapacity.
	Grow(ctx context.Context, a Adjustment) (Allotment, Adjustment, error)
}

// ChangeKind is what a row of the feed does in Redis. The numbers are stored.
type ChangeKind int

// The kinds of changes that go from the ledger to Redis.
const (
	ChangeGrow   ChangeKind = 1 // capacity and available rise by Quantity
	ChangeCancel ChangeKind = 2 // sold falls, available rises by Quantity, for BuyerID
	ChangeRules  ChangeKind = 3 // the rules are Rules
)

// Change is a row of the feed.
type Change struct {
	Number   int64
	Kind     ChangeKind
	Quantity int64
	BuyerID  string
	Rules    Rules
}

// Feed is the numbered changes of an allotment that go from the ledger to Redis.
type Feed interface {
	// Pending returns the ids of the allotments that have feed rows, after the given one.
	Pending(ctx context.Context, after string, limit int) ([]string, error)
	// Changes returns the rows above number after, in order.
	Changes(ctx context.Context, allotment string, after int64, limit int) ([]Change, error)
	// Applied deletes the rows up to number if epoch is the allotment's, else ErrStale.
	Applied(ctx context.Context, allotment string, epoch, number int64) error
}

// Adoption is the ledger's part in rebuilding an allotment's Redis state.
type Adoption interface {
	// InRedis returns up to limit rows in the order of their ids, after the given one, of the allotments that Redis may
	// have: all but those retired before since.
	InRedis(ctx context.Context, since time.Time, after string, limit int) ([]Allotment, error)
	// RaiseEpoch sets the epoch to max(Postgres, Redis)+1 under the row lock if it is still seen,
	// else ErrStale. If Redis knew a newer epoch or feed number, Postgres went back in time: the
	// allotment is PAUSED and its feed number raised past the one of Redis. It deletes the feed
	// rows, which the returned row counts. A retired allotment is ErrStale. The row is read in the same transaction.
	// That Postgres went back is also told with an error: it may have been committed, and then no later call finds it.
	RaiseEpoch(ctx context.Context, id string, seen, redisEpoch, redisFeed int64) (row Allotment, wentBack bool, err error)
	// Pause sets the state PAUSED during an adopt, if epoch is the allotment's, else ErrStale.
	Pause(ctx context.Context, id string, epoch int64) (Allotment, error)
	// RecentOutcomes returns up to limit outcomes decided since then, in the order of the times and then of the hold ids. Of those
	// decided at that very time it leaves out the hold ids up to the given one, so a page begins with the last outcome of the one before.
	RecentOutcomes(ctx context.Context, allotment string, since time.Time, after string, limit int) ([]Outcome, error)
	// BuyerTotals calls f with each buyer's units sold, less those cancelled up to the feed number.
	BuyerTotals(ctx context.Context, allotment string, feed int64, f func(buyer string, sold int64) error) error
	// Retire notes that a CLOSED allotment whose feed is empty leaves Redis, if epoch is its, else ErrStale.
	Retire(ctx context.Context, id string, epoch int64) error
}
