package local

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn from below the range that kernels hand out to outgoing connections. A port in that
// range could be lost to any client while a server is down between Kill and Restart, and a client that keeps
// dialling a dead server there may in the end connect to itself.
const (
	firstPort = 20_000
	lastPort  = 29_999
	portTries = 200
)

// freePort returns a loopback port that nothing listens on. It may be taken again before a server binds it; the
// caller then asks for another one.
func freePort() (int, error) {
	var last error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // a guess is no harm: whoever is here can look at all ports
		listener, err := net.Listen("tcp4", loopback(port))
		if err != nil {
			last = err
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, last)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
