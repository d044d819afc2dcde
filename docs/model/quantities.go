package model

// seed is where every run of the workload starts.
const seed = 20260730

// source is the workload's generator, s = s*1103515245 + 12345 mod 2^32: poor randomness, but the same in every language.
type source uint32

// next returns the next number, from 0 up to but not 1.
func (s *source) next() float64 {
	*s = *s*1103515245 + 12345
	return float64(*s) / (1 << 32)
}

// Quantities returns how many items each request of the reference workload asks for, in order: one with probability 0.6,
// otherwise two. It is for tests that put the same workload to the service.
func Quantities() []int64 {
	random := source(seed)
	return draw(&random)
}

// draw takes the quantities off the front of the random numbers; the choice of workers goes on behind them.
func draw(random *source) []int64 {
	quantities := make([]int64, Requests)
	for i := range quantities {
		quantities[i] = 2
		if random.next() < 0.6 {
			quantities[i] = 1
		}
	}
	return quantities
}
