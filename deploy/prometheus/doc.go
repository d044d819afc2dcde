// Package prometheus has no code of its own. Its tests hold the alerts and the dashboard of ../chart/files against
// Prometheus's own engine: with made-up series, and with what real servers show while each alert's condition is made real.
//
//	make test-observe
package prometheus
