package history

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestBroken forges one breach at a time. The promise and what is said of the breach are named; other promises may be
// broken with it.
func TestBroken(t *testing.T) {
	numbers := Numbers{Capacity: 5, Held: 3, Sold: 2, Requested: 1}
	tests := map[string]struct {
		promise, says string
		forge         func(*forged)
	}{
		"more is held at once than there is": {"R3", "6 units held or sold at once", func(f *forged) {
			f.granted(4, ms(400), ms(420))
		}},
		"a lapsed hold is given away before its deadline": {"R3", "6 units held or sold", func(f *forged) {
			f.granted(4, ms(9000), ms(9020))
		}},
		"the server has a hold for a buyer that it refused": {"R4", "every such request was refused", func(f *forged) {
			f.refused(5, ms(400), ms(410), AllHeld, Numbers{Capacity: 5, Held: 5, Requested: 2})
			f.Final.Holds = append(f.Final.Holds, *f.hold(5, Lapsed, 9, 0))
		}},
		"the server has a hold that nobody asked for": {"R4", "buyer stranger", func(f *forged) {
			h := *f.hold(5, Lapsed, 9, 0)
			h.Buyer = "stranger"
			f.Final.Holds = append(f.Final.Holds, h)
		}},
		"a hold is sold, and the ledger has no sale": {"R3", "has a sale of it: false", func(f *forged) {
			f.Final.Holds[2].State = Sold
		}},
		"the ledger has a sale, and its hold has lapsed": {"R3", "has a sale of it: true", func(f *forged) {
			f.add(&Call{Kind: ConfirmHold, Buyer: 2, Sent: ms(5000), Answered: ms(5010), Outcome: Trouble, Reason: "RESULT_UNKNOWN"})
			f.Final.Sales = append(f.Final.Sales, f.sale(2))
			f.Final.Stock.Sold, f.Final.Stock.Available = 3, 2
		}},
		"a confirm is refused after the hold was sold": {"R3", "though the hold was sold before", func(f *forged) {
			f.confirmRefused(0, 12_000, HoldLapsed)
		}},
		"a hold is shorter than the window": {"R3", "not a window of 10.0", func(f *forged) {
			f.Calls[2].Hold.Remaining = window / 2
		}},
		"the ledger sold more than there is": {"R1", "the ledger: 6 sold of 5", func(f *forged) {
			f.Final.Sales[0].Quantity = 6
		}},
		"buyers are told of more sales than there are": {"R1", "buyers were told: 6 sold of 5", func(f *forged) {
			f.quantities[0] = 6
		}},
		"a reading shows more sold than there is": {"R1", "6 sold of 5", func(f *forged) {
			f.Stocks[2] = Stock{Sent: ms(1), Answered: ms(2), Capacity: 5, Sold: 6}
		}},

		"refused while nothing was held": {"R2", "at least 2 were free", func(f *forged) {
			f.refused(5, ms(15_000), ms(15_010), AllHeld, Numbers{Capacity: 5, Held: 3, Sold: 2, Requested: 2})
		}},
		"refused though what was held has lapsed": {"R2", "at least 3 were free", func(f *forged) {
			f.Calls = f.Calls[:len(f.Calls)-1] // without the trouble of buyer 4
			f.refused(4, ms(10_400), ms(10_410), AllHeld, numbers)
		}},
		"refused with numbers that refute it": {"R2", "enough is free by its own numbers", func(f *forged) {
			f.Calls[3].Numbers.Held = 4
		}},
		"sold out though enough is unsold": {"R2", "enough is unsold", func(f *forged) {
			f.Calls[3].Reason = SoldOut
		}},
		"all held though sold out": {"R2", "too little is unsold", func(f *forged) {
			f.Calls[3].Numbers = Numbers{Capacity: 5, Sold: 5, Requested: 1}
		}},
		"sold out before anything was confirmed": {"R2", "at most 0 had been confirmed", func(f *forged) {
			f.Calls[3].Reason, f.Calls[3].Numbers = SoldOut, Numbers{Capacity: 5, Sold: 5, Requested: 1}
		}},
		"held by more than asked": {"R2", "at most 4 had been taken", func(f *forged) {
			f.refused(5, ms(105), ms(115), AllHeld, Numbers{Capacity: 5, Held: 5, Requested: 2})
		}},
		"refused with another capacity": {"R2", "another capacity", func(f *forged) {
			f.Calls[3].Numbers.Capacity = 4
		}},
		"refused with another quantity": {"R2", "another quantity", func(f *forged) {
			f.Calls[3].Numbers.Requested = 2
		}},
		"refused with more than there is": {"R2", "more sold and held", func(f *forged) {
			f.Calls[3].Numbers.Held = 6
		}},
		"refused with a number below 0": {"R2", "below 0", func(f *forged) {
			f.Calls[3].Numbers.Sold = -1
		}},
		"refused with a reason that can not be": {"R2", "BUYER_LIMIT", func(f *forged) {
			f.Calls[3].Reason = "BUYER_LIMIT"
		}},

		"a confirm in time is refused": {"R3", "before the deadline", func(f *forged) {
			f.confirmRefused(2, 5000, HoldLapsed)
		}},
		"a confirm is refused for no cause": {"R3", "no cause", func(f *forged) {
			f.confirmRefused(2, 12_000, "ORDER_EXISTS")
		}},
		"a confirm is refused before the later deadline that an outage gave": {"R3", "before the deadline", func(f *forged) {
			f.again(2, ms(8000), ms(8010), Held).Hold.Remaining = ms(5000)
			f.confirmRefused(2, 12_000, HoldLapsed)
		}},
		"lapsed before the later deadline that an outage gave": {"R3", "lapsed before its deadline", func(f *forged) {
			f.again(2, ms(8000), ms(8010), Held).Hold.Remaining = ms(5000)
			f.again(2, ms(12_000), ms(12_010), Lapsed)
		}},
		"lapsed early": {"R3", "lapsed before its deadline", func(f *forged) {
			f.again(2, ms(5000), ms(5010), Lapsed)
		}},
		"live after its deadline": {"R3", "live after its deadline", func(f *forged) {
			f.again(2, ms(10_235), ms(10_240), Held).Hold.Remaining = 0
		}},
		"a deadline that comes nearer": {"R3", "earlier deadline", func(f *forged) {
			f.again(2, ms(5000), ms(5010), Held).Hold.Remaining = ms(1000)
		}},
		"more time is left than a hold lasts": {"R3", "longer than a window", func(f *forged) {
			f.Calls[2].Hold.Remaining = window + ms(100)
		}},
		"of no state": {"R3", "of no state", func(f *forged) {
			f.Calls[2].Hold.State = 0
		}},
		"cancelled by nobody": {"R3", "nobody asked for", func(f *forged) {
			f.again(2, ms(5000), ms(5010), Cancelled)
		}},
		"sold by nobody": {"R3", "sold, which nobody asked for", func(f *forged) {
			f.again(2, ms(5000), ms(5010), Sold)
		}},
		"no longer sold": {"R3", "not any more", func(f *forged) {
			f.again(0, ms(5000), ms(5010), Held)
		}},
		"told sold by a repeat, and the ledger has no sale": {"R3", "was told that it is sold, and the ledger", func(f *forged) {
			f.confirmTrouble(2, 5000)
			f.again(2, ms(6000), ms(6010), Sold)
		}},
		"told sold by a repeat, and live later": {"R3", "not any more", func(f *forged) {
			f.confirmTrouble(2, 5000)
			f.again(2, ms(6000), ms(6010), Sold)
			f.again(2, ms(7000), ms(7010), Held)
		}},
		"told sold by a repeat, and given to others": {"R3", "6 units held or sold", func(f *forged) {
			f.confirmTrouble(1, 5000)
			f.again(1, ms(6000), ms(6010), Sold)
			f.quantities[5] = 1
			f.granted(5, ms(10_600), ms(10_620))
			f.Calls = append(f.Calls[:7], f.Calls[8:]...) // without the lapse of buyer 1
		}},
		"being confirmed, and lapsed later": {"R3", "had begun", func(f *forged) {
			f.confirmTrouble(2, 5000)
			f.again(2, ms(6000), ms(6010), Confirming)
			f.again(2, ms(12_000), ms(12_010), Lapsed)
		}},
		"being confirmed, and lapsed in the end": {"R3", "had begun", func(f *forged) {
			f.confirmTrouble(2, 5000)
			f.again(2, ms(6000), ms(6010), Confirming)
		}},
		"lapsed, and live again": {"R3", "live again", func(f *forged) {
			f.again(1, ms(12_000), ms(12_010), Held).Hold.Remaining = ms(9000)
		}},
		"a confirm refused as lapsed, and live again": {"R3", "live again", func(f *forged) {
			f.confirmRefused(2, 12_000, HoldLapsed)
			f.again(2, ms(13_000), ms(13_010), Held).Hold.Remaining = ms(9000)
		}},
		"a sale that the ledger does not have": {"R3", "no sale of it", func(f *forged) {
			f.Final.Sales = nil
		}},
		"a sale of another quantity": {"R3", "sold:", func(f *forged) {
			f.Calls[4].Sale.Quantity = 1
		}},
		"a sale whose confirm was refused": {"R3", "confirm was refused", func(f *forged) {
			f.confirmRefused(2, 12_000, HoldLapsed)
			f.Final.Sales = append(f.Final.Sales, f.sale(2))
		}},
		"a hold that the server has forgotten": {"R3", "does not know it", func(f *forged) {
			f.Final.Holds = f.Final.Holds[:3]
		}},
		"a hold that the server has otherwise": {"R3", "the server has 1", func(f *forged) {
			f.Final.Holds[1].Quantity = 1
		}},
		"a sold hold that the server has as lapsed": {"R3", "it is LAPSED", func(f *forged) {
			f.Final.Holds[0].State = Lapsed
		}},
		"a hold that never lapses": {"R3", "deadline has passed, and it is HELD", func(f *forged) {
			f.Final.Holds[1].State = Held
		}},
		"a hold that the server has cancelled": {"R3", "cancelled", func(f *forged) {
			f.Final.Holds[1].State = Cancelled
		}},

		"a repeat gets another hold": {"R4", "first it was hold-1", func(f *forged) {
			f.again(1, ms(3000), ms(3010), Held).Hold.ID = "hold-9"
		}},
		"a repeat gets another quantity": {"R4", "hold hold-1 of 1", func(f *forged) {
			f.again(1, ms(3000), ms(3010), Held).Hold.Quantity = 1
		}},
		"a repeat is told of another order": {"R4", "under order order-7", func(f *forged) {
			f.again(0, ms(5000), ms(5010), Sold).Hold.Order = "order-7"
		}},
		"a repeat gets another buyer's hold": {"R4", "for buyer-2", func(f *forged) {
			f.again(1, ms(3000), ms(3010), Held).Hold.Buyer = "buyer-2"
		}},
		"a repeat is refused": {"R4", "had got hold hold-1", func(f *forged) {
			f.refused(1, ms(3000), ms(3010), AllHeld, Numbers{Capacity: 5, Held: 3, Sold: 2, Requested: 2})
		}},
		"one hold for two buyers": {"R4", "was given to buyers", func(f *forged) {
			f.Calls[2].Hold.ID = "hold-1"
		}},
		"two holds for one request": {"R4", "of the same request", func(f *forged) {
			h := f.Final.Holds[1]
			h.ID = "hold-9"
			f.Final.Holds = append(f.Final.Holds, h)
		}},
		"two sales of one hold": {"R4", "more than one sale", func(f *forged) {
			s := f.sale(0)
			s.Order = "order-9"
			f.Final.Sales = append(f.Final.Sales, s)
		}},
		"two sales of one order": {"R4", "more than one sale", func(f *forged) {
			s := f.sale(2)
			s.Order = "order-0"
			f.Final.Sales = append(f.Final.Sales, s)
		}},
		"a sale that nobody asked for": {"R4", "nobody asked for", func(f *forged) {
			f.Final.Sales = append(f.Final.Sales, f.sale(2))
		}},
		"a sale of more than was confirmed": {"R4", "2 units asked for", func(f *forged) {
			f.Final.Sales[0].Quantity = 3
		}},

		"a token that goes back": {"R5", "has token", func(f *forged) {
			f.Calls[2].Hold.Token.Sequence = 0
		}},
		"one token for two holds": {"R5", "same token", func(f *forged) {
			f.Calls[2].Hold.Token = f.Calls[1].Hold.Token
		}},
		"a sale with another token": {"R5", "its sale", func(f *forged) {
			f.Calls[4].Sale.Token.Sequence = 9
		}},
		"a sale in the ledger with another token": {"R5", "its sale", func(f *forged) {
			f.Final.Sales[0].Token.Epoch = 2
		}},

		"a reading that does not add up": {"R6", "0 available + 4 held", func(f *forged) {
			f.Stocks[0].Held = 4
		}},
		"a reading of more than there is": {"R6", "1 available + 5 held", func(f *forged) {
			f.Stocks[0].Available = 1
		}},
		"a reading of stock that is taken": {"R6", "at least 5 of 5", func(f *forged) {
			f.Stocks[0].Available, f.Stocks[0].Held = 1, 4
		}},
		"a reading of units that have lapsed": {"R6", "at most 2 had been taken and not lapsed", func(f *forged) {
			f.Stocks = append(f.Stocks, Stock{Sent: ms(10_400), Answered: ms(10_410), Capacity: 5, Available: 2, Held: 1, Sold: 2})
		}},
		"a reading of sales that were not made": {"R6", "at most 0 had been confirmed", func(f *forged) {
			f.Stocks[0].Sold, f.Stocks[0].Held = 1, 4
		}},
		"units that do not come back": {"R6", "with every hold at its end", func(f *forged) {
			f.Final.Stock.Available, f.Final.Stock.Held = 2, 1
		}},
		"what a reconcile finds of one whose confirm is under way, beyond that": {"R6", "too many units", func(f *forged) {
			f.unfinished(2)
			f.Final.Findings = []Finding{{What: "too many units", Buyer: f.buyer(2).ID, Difference: 1}}
		}},
		"what a reconcile finds of one whose confirm is not under way": {"R6", "units sold of a buyer", func(f *forged) {
			f.unfinished(2)
			f.Final.Findings = []Finding{{What: "units sold of a buyer", Buyer: f.buyer(0).ID, Difference: -1}}
		}},
		"a hold is live, and its buyer was told that it is sold": {"R3", "it is HELD", func(f *forged) {
			f.unfinished(2)
			f.Final.Holds[2].State = Held
		}},
		"a hold is cancelled, and its buyer was told that it is sold": {"R3", "it is CANCELLED", func(f *forged) {
			f.unfinished(2)
			f.Final.Holds[2].State = Cancelled
		}},
		"a hold has lapsed, and its buyer was told that it is sold": {"R3", "it is LAPSED", func(f *forged) {
			f.unfinished(2)
			f.Final.Holds[2].State = Lapsed
		}},
		"a confirm is under way when all must be at its end": {"R3", "it is CONFIRMING", func(f *forged) {
			f.unfinished(2)
			f.Final.Settled = true
		}},
		"a confirm is under way whose sale the ledger does not have": {"R3", "the ledger has no sale of it", func(f *forged) {
			f.unfinished(2)
			f.Final.Sales = f.Final.Sales[:1]
		}},
		"a capacity that has changed": {"R6", "capacity of 6", func(f *forged) {
			f.Final.Capacity = 6
		}},
		"what a reconcile finds": {"R6", "one unit is missing", func(f *forged) {
			f.Final.Findings = []Finding{{What: "one unit is missing"}}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := forge()
			test.forge(f)
			v := Judge(f.History)
			p := v.broken()[test.promise]
			if p == nil {
				t.Fatalf("not noticed; noticed: %v", v.broken())
			}
			if p.Breaches == 0 || !strings.Contains(strings.Join(p.Examples, "\n"), test.says) {
				t.Errorf("%q is not in %q", test.says, p.Examples)
			}
			if v.Kept() {
				t.Error("the verdict is that all was kept")
			}
		})
	}
}

// unfinished lets a buyer be told of a sale, and the books be read before its confirm is finished in Redis.
func (f *forged) unfinished(i int) {
	f.sold(i, ms(5000), ms(5010))
	f.Stocks = f.Stocks[:2] // the last is of a time when it would have lapsed
	f.Final.Settled = false
	f.Final.Sales = append(f.Final.Sales, f.sale(i))
	f.Final.Holds[i].State = Confirming
	f.Final.Stock.Available, f.Final.Stock.Held = 2, 1
}

// TestUnfinished: a buyer is told what the ledger decided before Redis is, which is no breach, and is told.
func TestUnfinished(t *testing.T) {
	f := forge()
	f.unfinished(2)
	f.Final.Findings = []Finding{{What: "units sold of a buyer", Buyer: f.buyer(2).ID, Difference: -1}}
	v := Judge(f.History)
	for id, p := range v.broken() {
		t.Errorf("%s: %q", id, p.Examples)
	}
	if facts := v.Promises[2].Facts; !strings.HasSuffix(facts, "; confirms not finished yet in the end: 1") {
		t.Errorf("R3: %s", facts)
	}
}

func (f *forged) confirmRefused(i, at int, why Reason) {
	f.add(&Call{
		Kind: ConfirmHold, Buyer: int32(i), Sent: ms(at), Answered: ms(at + 10), Outcome: Refused,
		Code: codes.FailedPrecondition, Reason: why,
	})
}

// TestConfirmingAndLost: a confirm that began on a Redis that was lost may be refused by its successor, and by no other.
func TestConfirmingAndLost(t *testing.T) {
	for _, lost := range []bool{true, false} {
		f := forge()
		f.confirmTrouble(2, 5000)
		f.again(2, ms(6000), ms(6010), Confirming)
		f.confirmRefused(2, 7000, HoldLapsed)
		if lost {
			f.Faults = []Fault{{Name: "the master is replaced", From: ms(5500), Until: ms(6500), Loses: true}}
		}
		if broken := Judge(f.History).broken()["R3"]; (broken == nil) != lost {
			t.Errorf("lost %t: %+v", lost, broken)
		}
	}
}

// TestNotFoundOut: where the server could not be asked in the end, nothing is said to be broken, and not all to be kept.
func TestNotFoundOut(t *testing.T) {
	f := forge()
	f.Final = nil
	v := Judge(f.History)
	if v.Kept() || v.Broken() {
		t.Errorf("kept %t, broken %t", v.Kept(), v.Broken())
	}
	for _, id := range []string{"R1", "R6"} {
		if p := v.broken()[id]; p == nil || !strings.Contains(p.Unknown, "could not be read") {
			t.Errorf("%s: %+v", id, p)
		}
	}
}

func (f *forged) confirmTrouble(i, at int) {
	f.add(&Call{Kind: ConfirmHold, Buyer: int32(i), Sent: ms(at), Answered: ms(at + 10), Outcome: Trouble, Reason: "RESULT_UNKNOWN"})
}

// TestNotBroken forges what looks like a breach and is none.
func TestNotBroken(t *testing.T) {
	tests := map[string]func(*forged){
		"refused while a request without an answer may have taken the units": func(f *forged) {
			f.quantities[5] = 3
			f.add(&Call{Buyer: 5, Sent: ms(10_300), Outcome: NoAnswer})
			f.Final.Holds = append(f.Final.Holds, *f.hold(5, Lapsed, 9, 0))
			f.refused(4, ms(10_400), ms(10_410), AllHeld, Numbers{Capacity: 5, Held: 3, Sold: 2, Requested: 1})
		},
		"a confirm after the deadline is refused": func(f *forged) {
			f.confirmRefused(2, 12_000, HoldLapsed)
		},
		"a confirm around the deadline is refused": func(f *forged) {
			f.confirmRefused(2, 10_195, HoldLapsed)
		},
		"a confirm met trouble, and its sale is there": func(f *forged) {
			f.add(&Call{Kind: ConfirmHold, Buyer: 2, Sent: ms(5000), Answered: ms(5010), Outcome: Trouble, Reason: "RESULT_UNKNOWN"})
			f.Final.Sales = append(f.Final.Sales, f.sale(2))
			f.Final.Holds[2].State = Sold
			f.Final.Stock.Sold, f.Final.Stock.Available = 3, 2
		},
		"a confirm met trouble, and there is no sale": func(f *forged) {
			f.add(&Call{Kind: ConfirmHold, Buyer: 2, Sent: ms(5000), Outcome: NoAnswer})
		},
		"a late confirm is accepted": func(f *forged) {
			f.sold(2, ms(12_000), ms(12_010))
			f.Final.Sales = append(f.Final.Sales, f.sale(2))
			f.Final.Holds[2].State = Sold
			f.Final.Stock.Sold, f.Final.Stock.Available = 3, 2
		},
		"the holds are read before they end": func(f *forged) {
			f.Final.Settled = false
			f.Final.Holds[3].State = Held
			f.Final.Stock = Stock{Sent: ms(11_200), Answered: ms(11_210), Capacity: 5, Available: 2, Held: 1, Sold: 2}
		},
		"requests at the same time get tokens in any order": func(f *forged) {
			f.Calls[1].Sent = ms(5)
			f.Calls[0].Hold.Token, f.Calls[1].Hold.Token = f.Calls[1].Hold.Token, f.Calls[0].Hold.Token
			f.Calls[5].Hold.Token = f.Calls[1].Hold.Token
			f.Calls[7].Hold.Token = f.Calls[1].Hold.Token
			f.Calls[4].Sale.Token = f.Calls[0].Hold.Token
			f.end()
		},
		"available is never shown below 0": func(f *forged) {
			f.add(&Call{Buyer: 5, Sent: ms(300), Outcome: NoAnswer})
			f.Final.Holds = append(f.Final.Holds, *f.hold(5, Lapsed, 9, 0))
			f.Stocks[0] = Stock{Sent: ms(400), Answered: ms(410), Capacity: 5, Held: 6}
		},
		"an adopt prolongs a hold that has just lapsed": func(f *forged) {
			f.Calls[6].Hold.Token.Epoch, f.Final.Holds[3].Token.Epoch = 2, 2
			f.again(2, ms(10_300), ms(10_310), Lapsed)
			f.again(2, ms(10_600), ms(10_610), Held).Hold.Remaining = ms(1500)
			f.Stocks = f.Stocks[:2]
		},
		"an outage prolongs holds, and nobody gets one after it": func(f *forged) {
			f.Calls, f.Stocks = f.Calls[:6], nil
			f.again(2, ms(8000), ms(8010), Held).Hold.Remaining = ms(5000)
			f.refused(3, ms(11_000), ms(11_010), AllHeld, Numbers{Capacity: 5, Held: 3, Sold: 2, Requested: 1})
			f.Final.Holds = f.Final.Holds[:3]
		},
		"an outage prolongs holds": func(f *forged) {
			f.Calls[6].Hold.Token.Epoch, f.Final.Holds[3].Token.Epoch = 2, 2
			f.again(2, ms(5000), ms(5010), Held).Hold.Remaining = ms(9000)
			f.refused(5, ms(12_000), ms(12_010), AllHeld, Numbers{Capacity: 5, Held: 3, Sold: 2, Requested: 2})
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			f := forge()
			change(f)
			for id, p := range Judge(f.History).broken() {
				t.Errorf("%s: %q", id, p.Examples)
			}
		})
	}
}

// TestForgiven: a breach that is forgiven is counted, and hides no other, however many of them come first.
func TestForgiven(t *testing.T) {
	f := forge()
	f.Forgive = []string{"nobody asked for"}
	for range 2 * mostExamples {
		f.again(2, ms(5000), ms(5010), Cancelled)
	}
	v := Judge(f.History)
	if p := v.broken()["R3"]; p != nil || v.Forgiven["nobody asked for"] != 2*mostExamples {
		t.Errorf("forgiven %v, R3: %+v", v.Forgiven, p)
	}
	f.confirmRefused(2, 6000, HoldLapsed)
	if p := Judge(f.History).broken()["R3"]; p == nil || !strings.Contains(p.Examples[0], "before the deadline") {
		t.Errorf("R3 with a breach that is not forgiven: %+v", p)
	}
}
