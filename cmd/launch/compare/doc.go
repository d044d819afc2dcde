// Package compare is `launch compare`: the same demand, on the same machine, decided in the ways that people try and by
// Holdfast. It shows what each of them sells, whom it refuses although there was stock, and what a decision costs.
//
// A way of selling is a [way]; it opens a shop, which is asked for by a number of callers at once. What they were told, and
// when, is all that counts: a [tally] is made from their answers, never from what a way says of itself. Where a way keeps
// books, they are audited against the answers.
//
// The callers are in this process and share the machine with the servers, as do those of every way, so the rates are for
// comparing. The one exception is the mutex, whose callers are in four processes, since that is its mistake.
package compare
