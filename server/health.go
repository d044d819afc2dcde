package server

import (
	"sync/atomic"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthOf answers the standard health service for the services of one listener. That a store is
// down changes nothing of what it says, because another replica would have the same trouble.
type healthOf struct {
	service  *health.Server
	names    []string
	serving  atomic.Bool
	stopping atomic.Bool
}

func newHealth(names ...string) *healthOf {
	h := &healthOf{service: health.NewServer(), names: append([]string{""}, names...)}
	h.set(healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// add lets another service be asked for. Call it before the server serves.
func (h *healthOf) add(name string) {
	h.names = append(h.names, name)
	h.set(healthpb.HealthCheckResponse_NOT_SERVING)
}

func (h *healthOf) setReady(ready bool) {
	h.serving.Store(ready)
	if ready {
		h.set(healthpb.HealthCheckResponse_SERVING)
	} else {
		h.set(healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// stop says NOT_SERVING from now on, to watchers too.
func (h *healthOf) stop() {
	h.stopping.Store(true)
	h.service.Shutdown()
}

func (h *healthOf) isServing() bool { return h.serving.Load() && !h.stopping.Load() }

func (h *healthOf) set(status healthpb.HealthCheckResponse_ServingStatus) {
	for _, name := range h.names {
		h.service.SetServingStatus(name, status)
	}
}
