package server

import (
	"fmt"
	"net/http"
)

// Probes answers /metrics, /livez and /readyz. Live is whoever answers. Ready is what the gRPC health service says
// too: a store that is down changes neither.
func Probes(metrics http.Handler, ready func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready: starting, stopping, or tables or settings do not fit; the log says which", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
