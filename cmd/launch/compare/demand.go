package compare

// demand is who asks for how much. It is drawn anew wherever it is needed: the same seed gives the same demand everywhere.
type demand struct {
	Seed     uint32
	Requests int
}

// request is one buyer's.
type request struct {
	number   int
	quantity int64
}

// draw returns the requests in the order of their coming, each for one item (0.6) or two (0.4), by the generator of
// docs/model. With the default seed the first 20,000 are the reference workload.
func (d demand) draw() []request {
	all := make([]request, d.Requests)
	s := d.Seed
	for i := range all {
		s = s*1103515245 + 12345
		all[i] = request{number: i, quantity: 2}
		if float64(s)/(1<<32) < 0.6 {
			all[i].quantity = 1
		}
	}
	return all
}

// share is what replica number n of several is sent by a balancer that takes turns.
func share(all []request, n, of int) []request {
	var mine []request
	for i := n; i < len(all); i += of {
		mine = append(mine, all[i])
	}
	return mine
}
