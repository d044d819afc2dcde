package holds

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// The model's clock moves in steps of 1,000 s. All durations of the allotment lie half a step beside
// its multiples, so that the time that the test itself takes decides nothing.
const (
	modelStep    = 1000 * time.Second
	modelHold    = 9*modelStep + modelStep/2
	modelLongest = 24*modelStep + modelStep/2
	modelLease   = modelStep / 2
)

// model is what an allotment must be like, in the simplest words.
type model struct {
	now                                                    time.Duration
	capacity, available, held, confirming, shrinking, sold int64
	feed, epoch                                            int64
	rules                                                  store.Rules
	holds                                                  map[string]*modelHoldState
	buyers                                                 map[string]int64 // units sold
	order                                                  []string         // keys of holds in the order of creation
}

type modelHoldState struct {
	state                     store.HoldState
	buyer, request            string // no buyer: a shrink
	qty, want, pin            int64
	order                     string
	created, deadline, leased time.Duration
	endedAt                   time.Duration
	reason                    store.EndReason
	epoch                     int64
}

func newModel(capacity int64, r store.Rules) *model {
	return &model{
		capacity: capacity, available: capacity, epoch: 1, rules: r, holds: map[string]*modelHoldState{}, buyers: map[string]int64{},
	}
}

func modelKey(buyer, request string) string { return buyer + "/" + request }

func (h *modelHoldState) due(now time.Duration) bool {
	return h.state == store.Held && h.deadline <= now
}

// shown is the state that callers see.
func (m *model) shown(h *modelHoldState) store.HoldState {
	if h.due(m.now) {
		return store.Lapsed
	}
	return h.state
}

func (m *model) end(h *modelHoldState, state store.HoldState) {
	h.state, h.endedAt = state, m.now
}

func (m *model) lapse(h *modelHoldState) {
	m.available, m.held = m.available+h.qty, m.held-h.qty
	m.end(h, store.Lapsed)
}

// usedBy is what counts against a buyer's limit, as it is stored.
func (m *model) usedBy(buyer string) (held int64) {
	for _, h := range m.holds {
		switch {
		case h.buyer != buyer:
		case h.state == store.Held:
			held += h.qty
		case h.state == store.Confirming:
			held += h.pin
		}
	}
	return held
}

// releaseDue releases what is due, of one buyer or of all; false: nothing was.
func (m *model) releaseDue(buyer string, all bool) bool {
	found := false
	for _, h := range m.holds {
		if h.due(m.now) && (all || h.buyer == buyer) {
			m.lapse(h)
			found = true
		}
	}
	return found
}

// fits makes room for units of a buyer as far as lapsed holds can; "" if it does.
func (m *model) fits(buyer string, units int64) store.Reason {
	for m.rules.MaxPerBuyer > 0 && buyer != "" && m.usedBy(buyer)+m.buyers[buyer]+units > m.rules.MaxPerBuyer {
		if !m.releaseDue(buyer, false) {
			return store.BuyerLimit
		}
	}
	for m.available < units {
		if !m.releaseDue("", true) {
			if m.capacity-m.sold < units {
				return store.SoldOut
			}
			return store.AllHeld
		}
	}
	return ""
}

const badQuantity store.Reason = "quantity"

// create returns the refusal, or "" and the hold.
func (m *model) create(buyer, request string, q int64) (store.Reason, *modelHoldState) {
	key := modelKey(buyer, request)
	if h := m.holds[key]; h != nil {
		if h.qty != q {
			return store.RequestMismatch, nil
		}
		return "", h
	}
	switch m.rules.State {
	case store.StateClosed:
		return store.Closed, nil
	case store.StatePaused:
		return store.Paused, nil
	}
	if q > m.rules.MaxPerHold {
		return badQuantity, nil
	}
	if no := m.fits(buyer, q); no != "" {
		return no, nil
	}
	m.available, m.held = m.available-q, m.held+q
	h := &modelHoldState{
		state: store.Held, buyer: buyer, request: request, qty: q, created: m.now, deadline: m.now + modelHold, epoch: m.epoch,
	}
	m.holds[key], m.order = h, append(m.order, key)
	return "", h
}

func (m *model) extend(h *modelHoldState) store.Reason {
	if h == nil || h.buyer == "" {
		return store.HoldNotFound
	}
	if no := map[store.HoldState]store.Reason{
		store.Lapsed: store.HoldLapsed, store.Sold: store.HoldSold, store.Cancelled: store.HoldCancelled, store.Confirming: store.HoldConfirming,
	}[m.shown(h)]; no != "" {
		return no
	}
	if m.rules.State == store.StateClosed {
		return store.Closed
	}
	latest := h.created + modelLongest
	if h.deadline >= latest {
		return store.ExtensionLimit
	}
	h.deadline = max(h.deadline, min(m.now+modelHold, latest))
	return ""
}

func (m *model) cancel(h *modelHoldState) store.Reason {
	switch {
	case h == nil || h.buyer == "":
		return store.HoldNotFound
	case h.state == store.Confirming:
		return store.HoldConfirming
	case h.state == store.Sold:
		return store.HoldSold
	case h.due(m.now):
		m.lapse(h)
	case h.state == store.Held:
		m.available, m.held = m.available+h.qty, m.held-h.qty
		m.end(h, store.Cancelled)
	}
	return ""
}

func (m *model) begin(h *modelHoldState, order string, part int64) store.Reason {
	if h == nil || h.buyer == "" {
		return store.HoldNotFound
	}
	if h.state == store.Sold && h.reason == store.SoldEarlier { // its quantity is another hold's
		if h.order != order {
			return store.OrderMismatch
		}
		return ""
	}
	want := part
	if part == 0 {
		want = h.qty
	}
	if want > h.qty {
		return badQuantity
	}
	switch m.shown(h) {
	case store.Confirming, store.Sold:
		if h.order != order {
			return store.OrderMismatch
		}
		if h.want != want {
			return store.RequestMismatch
		}
		return ""
	case store.Cancelled:
		if h.reason == store.EndedByOrder && h.order == order {
			return store.OrderExists
		}
		return store.HoldCancelled
	case store.Lapsed:
		if m.rules.LateConfirm == store.LateReject {
			return store.HoldLapsed
		}
		if h.state == store.Lapsed {
			if m.fits(h.buyer, want) != "" {
				return store.HoldLapsed
			}
			m.available, m.held = m.available-want, m.held+want
			h.pin = want
			break
		}
		h.pin = h.qty
	default:
		h.pin = h.qty
	}
	m.held, m.confirming = m.held-h.pin, m.confirming+h.pin
	h.state, h.order, h.want, h.leased = store.Confirming, order, want, m.now+modelLease
	return ""
}

// finish applies a verdict; same says whether it is of this hold's token.
func (m *model) finish(h *modelHoldState, kind store.VerdictKind, same bool) {
	if h == nil || kind == store.VerdictStale || h.state != store.Held && h.state != store.Confirming {
		return
	}
	counter, units := &m.confirming, h.pin
	if h.state == store.Held {
		counter, units = &m.held, h.qty
	} else if h.buyer == "" {
		counter = &m.shrinking
	}
	sold := h.want
	if h.state == store.Held {
		sold = h.qty
	}
	switch {
	case kind == store.VerdictSold && !same:
		*counter, m.available = *counter-units, m.available+units
		h.want, h.order, h.reason = sold, "verdict", store.SoldEarlier
		m.end(h, store.Sold)
	case kind == store.VerdictSold && h.buyer == "":
		*counter, m.capacity, m.available = *counter-units, m.capacity-sold, m.available+units-sold
		m.end(h, store.Sold)
	case kind == store.VerdictSold:
		*counter, m.sold, m.available = *counter-units, m.sold+sold, m.available+units-sold
		m.buyers[h.buyer] += sold
		h.want, h.order = sold, "verdict"
		m.end(h, store.Sold)
	case h.state == store.Confirming && same:
		*counter, m.available = *counter-units, m.available+units
		h.reason = map[store.VerdictKind]store.EndReason{
			store.VerdictRefusedOrder: store.EndedByOrder, store.VerdictRefusedCart: store.EndedByCart,
		}[kind]
		m.end(h, store.Cancelled)
	}
}

func (m *model) shrink(request string, units int64) store.Reason {
	key := modelKey("", request)
	if h := m.holds[key]; h != nil && h.state != store.Cancelled {
		if h.qty != units {
			return store.RequestMismatch
		}
		return ""
	}
	if m.fits("", units) != "" {
		return store.CapacityInUse
	}
	m.available, m.shrinking = m.available-units, m.shrinking+units
	if m.holds[key] == nil {
		m.order = append(m.order, key)
	}
	m.holds[key] = &modelHoldState{
		state: store.Confirming, request: request, qty: units, want: units, pin: units, created: m.now, leased: m.now + modelLease,
		epoch: m.epoch,
	}
	return ""
}

func (m *model) purge(h *modelHoldState, key string) {
	ended := h.state != store.Held && h.state != store.Confirming
	if ended && h.endedAt+retention < m.now {
		delete(m.holds, key)
		m.order = slices.DeleteFunc(m.order, func(k string) bool { return k == key })
	}
}

// compare lists where the state differs from the model.
func (m *model) compare(allotment string, s *state) (found []string) {
	for name, want := range map[string]int64{
		"capacity": m.capacity, "available": m.available, "held": m.held, "confirming": m.confirming, "shrinking": m.shrinking,
		"sold": m.sold, "feed": m.feed, "epoch": m.epoch,
	} {
		if got := s.counters[name]; got != want {
			found = append(found, fmt.Sprintf("%s is %d, the model says %d", name, got, want))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.holds)) {
		h := m.holds[key]
		got, ok := s.holds[packTag(store.NewHoldID(allotment, h.buyer, h.request).Tag)]
		if !ok {
			found = append(found, "no record of "+key)
			continue
		}
		same := got.state == h.state && got.qty == h.qty && got.buyer == h.buyer && got.request == h.request && got.epoch == h.epoch
		if h.state == store.Confirming || h.state == store.Sold && h.buyer != "" {
			same = same && got.want == h.want && got.order == h.order
		}
		if h.state == store.Confirming {
			same = same && got.pin == h.pin
		}
		if !same {
			found = append(found, fmt.Sprintf("%s is %+v, the model says %+v", key, got, *h))
		}
	}
	if len(s.holds) != len(m.holds) {
		found = append(found, fmt.Sprintf("%d records, the model says %d", len(s.holds), len(m.holds)))
	}
	for buyer, want := range m.buyers {
		if got := s.buyers[fieldOf(store.NewBuyerKey(allotment, buyer))].sold; got != want {
			found = append(found, fmt.Sprintf("buyer %s bought %d, the model says %d", buyer, got, want))
		}
	}
	return found
}
