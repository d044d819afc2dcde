package admin

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-inventory/holdfast/cmd/caller"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// connection is where the server is, how to be let in, and how to show its answers.
type connection struct {
	Addr            string `name:"addr" env:"HOLDFAST_ADDR" default:"127.0.0.1:50051" placeholder:"HOST:PORT" help:"The server: its --grpc-addr or, where operators' calls have one of their own, its --admin-addr."`
	caller.Settings `embed:""`
	Timeout         time.Duration `name:"timeout" env:"HOLDFAST_TIMEOUT" default:"30s" placeholder:"DURATION" help:"How long a call may take, repeats included."`
	JSON            bool          `name:"json" help:"Print JSON for scripts, one object a line."`
}

// repeats makes the client repeat, with the same content, what the server or the network had trouble with: five times at
// most, after the delay that the server asks for, if it does. A change of rules is not repeated: when it was made the repeat
// would be told STALE_ETAG.
const repeats = `{"methodConfig":[{"name":[{"service":"holdfast.v1.AdminService"}],"retryPolicy":{"maxAttempts":5,
	"initialBackoff":"0.2s","maxBackoff":"2s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}},
	{"name":[{"service":"holdfast.v1.AdminService","method":"UpdateAllotment"}]}]}`

// Problems says what is wrong with these settings.
func (c *connection) Problems() []string {
	var all []string
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		all = append(all, fmt.Sprintf("--addr (HOLDFAST_ADDR): is %q, must be HOST:PORT", c.Addr))
	}
	all = append(all, c.Settings.Problems(c.Addr)...)
	if c.Timeout <= 0 {
		all = append(all, "--timeout (HOLDFAST_TIMEOUT): must be above 0")
	}
	return all
}

// dial makes a connection, which connects when it is first used.
func (c *connection) dial(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	credentials, err := c.Open()
	if err != nil {
		return nil, err
	}
	options := append(credentials.DialOptions(), grpc.WithDefaultServiceConfig(repeats), grpc.WithDisableServiceConfig())
	conn, err := grpc.NewClient(c.Addr, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("--addr: %w", err)
	}
	return conn, nil
}

// call makes one call of AdminService, and explains its failure.
func call[Request, Response any](
	ctx context.Context, c *connection, method func(pb.AdminServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	var none Response
	trouble := &lastTrouble{}
	conn, err := c.dial(grpc.WithStatsHandler(trouble))
	if err != nil {
		return none, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	response, err := method(pb.NewAdminServiceClient(conn), ctx, request)
	if err != nil {
		return none, explain(trouble.explains(err))
	}
	return response, nil
}
