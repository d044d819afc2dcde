// Package client calls Holdfast from a checkout.
//
// A checkout holds units for a buyer, the buyer pays, and the hold is confirmed:
//
//	c, err := client.Dial("dns:///holdfast.example.org:50051", client.Options{CAFile: "ca.crt", TokenFile: "shop.token"})
//	...
//	hold, err := c.Hold(ctx, client.Want{AllotmentID: "concert", BuyerID: "ann", RequestID: "cart-17", Quantity: 2})
//	...
//	sale, err := c.Confirm(ctx, hold.GetId(), "order-17")
//
// # What an error means
//
// A call ends in one of three ways. It is done; or it was refused, which is a [Refusal] with a reason; or it is not known whether it
// was done, which is an [Unknown], and then the same call with the same ids tells. Reasons that a checkout acts on have types with
// their numbers, such as [SoldOut]:
//
//	var soldOut client.SoldOut
//	if errors.As(err, &soldOut) { ... soldOut.Sold ... }
//
// # What is repeated
//
// Every call through a [Client] is tried again, with the same request, for as long as its outcome is open: when the server says that
// it could not decide, or no answer came. A refusal is never tried again. This is decided by the reason in the answer and in this
// package alone; gRPC's own retries are off, since they see only status codes, end with the first byte of an answer, and know no deadline for one
// try. (An error that is no status, such as the io.EOF that they may let through, leaves a call open here as UNKNOWN does.) A try waits
// as long as the server asks for, else a random time up to a limit that doubles, from 50 ms to 2 s. The tries end with the call's
// context; without a deadline there a call has 5 s, or 15 s where Postgres takes part.
//
// docs/checkout.md is the contract behind all this, for every language.
package client

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// ServiceConfig is the gRPC service config that is also for clients in other languages, which need its retries. Of these this package
// makes no use: it has better ones.
//
//go:embed serviceconfig.json
var ServiceConfig string

// How connections are kept. A server ends those on which a client pings more often than its enforcement policy allows.
const (
	pingEvery      = 20 * time.Second
	pingTimeout    = 5 * time.Second // after which a peer that does not answer is gone
	connectFirst   = 100 * time.Millisecond
	connectLongest = 3 * time.Second // so that a server that is back is soon found
	connectTimeout = 5 * time.Second
)

// Client is a connection to each of the servers that its target names. It is made once in a process and used by all of it. Beside
// Hold, Confirm and Cancel it has every call of the API, with the same tries and errors; but a stream (WatchAvailability) is not opened
// again by itself.
type Client struct {
	pb.InventoryServiceClient

	conn *grpc.ClientConn
}

// Dial makes a client of the servers at target, host:port or dns:///host:port, between whose addresses calls take turns. It connects when
// first used, or by Connect.
func Dial(target string, o Options) (*Client, error) {
	security, err := o.security(target)
	if err != nil {
		return nil, err
	}
	ours := []grpc.DialOption{
		grpc.WithDefaultServiceConfig(ServiceConfig),
		grpc.WithDisableServiceConfig(), // what DNS may say of it
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(repeat),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: connectFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: connectLongest},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithIdleTimeout(0), // connections stay warm until the launch
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithPropagators(propagation.TraceContext{}))),
	}
	conn, err := grpc.NewClient(target, slices.Concat(security, ours, o.DialOptions)...)
	if err != nil {
		return nil, fmt.Errorf("holdfast: %w", err)
	}
	return &Client{InventoryServiceClient: pb.NewInventoryServiceClient(conn), conn: conn}, nil
}

// Connect connects, and returns when a first connection is ready: to do before a launch begins. The others follow by themselves.
func (c *Client) Connect(ctx context.Context) error {
	for {
		switch state := c.conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.Shutdown:
			return errors.New("holdfast: the client is closed")
		default:
			c.conn.Connect()
			if !c.conn.WaitForStateChange(ctx, state) {
				return fmt.Errorf("holdfast: no connection to %s (%v): %w", c.conn.Target(), state, ctx.Err())
			}
		}
	}
}

// Close ends the connections, and calls that are under way.
func (c *Client) Close() error { return c.conn.Close() }
