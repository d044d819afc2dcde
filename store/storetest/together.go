package storetest

import "sync"

// Together runs f for 0..n-1 at once, released by one signal, and returns when all have.
func Together(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}
