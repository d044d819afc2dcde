package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
)

// connection is where the server is, how to be let in, and how to show its answers.
type connection struct {
	Addr      string        `name:"addr" env:"HOLDFAST_ADDR" default:"127.0.0.1:50051" placeholder:"HOST:PORT" help:"The server: its --grpc-addr or, where operators' calls have one of their own, its --admin-addr."`
	TLS       bool          `name:"tls" env:"HOLDFAST_TLS" help:"Encrypt, and trust the authorities that this machine trusts. Also set by --ca-file and --cert-file."`
	CAFile    string        `name:"ca-file" env:"HOLDFAST_CA_FILE" placeholder:"FILE" help:"The authorities (PEM) to trust instead."`
	CertFile  string        `name:"cert-file" env:"HOLDFAST_CERT_FILE" placeholder:"FILE" help:"The certificate (PEM) to show to the server. Needs --key-file."`
	KeyFile   string        `name:"key-file" env:"HOLDFAST_KEY_FILE" placeholder:"FILE" help:"Its private key (PEM)."`
	TokenFile string        `name:"token-file" env:"HOLDFAST_TOKEN_FILE" placeholder:"FILE" help:"The file whose content is sent as bearer token, read for each call. Needs TLS, but for a server on this machine."`
	Timeout   time.Duration `name:"timeout" env:"HOLDFAST_TIMEOUT" default:"30s" placeholder:"DURATION" help:"How long a call may take, repeats included."`
	JSON      bool          `name:"json" help:"Print JSON for scripts, one object a line."`
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
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		all = append(all, fmt.Sprintf("--addr (HOLDFAST_ADDR): is %q, must be HOST:PORT", c.Addr))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		all = append(all, "--cert-file (HOLDFAST_CERT_FILE) and --key-file (HOLDFAST_KEY_FILE): give both or none")
	}
	if err == nil && c.TokenFile != "" && !c.encrypted() && !loopback(host) {
		all = append(all, fmt.Sprintf("--token-file (HOLDFAST_TOKEN_FILE): would be sent to %q in the clear: "+
			"give --ca-file, or --tls", c.Addr))
	}
	if c.Timeout <= 0 {
		all = append(all, "--timeout (HOLDFAST_TIMEOUT): must be above 0")
	}
	return all
}

func (c *connection) encrypted() bool { return c.TLS || c.CAFile != "" || c.CertFile != "" }

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// dial makes a connection, which connects when it is first used.
func (c *connection) dial() (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if c.encrypted() {
		config, err := c.tlsConfig()
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport), grpc.WithDefaultServiceConfig(repeats), grpc.WithDisableServiceConfig()}
	if c.TokenFile != "" {
		if _, err := readToken(c.TokenFile); err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(c.TokenFile)))
	}
	conn, err := grpc.NewClient(c.Addr, options...)
	if err != nil {
		return nil, fmt.Errorf("--addr: %w", err)
	}
	return conn, nil
}

func (c *connection) tlsConfig() (*tls.Config, error) {
	config, err := auth.ClientTLS(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	if c.CertFile != "" {
		if err := auth.Show(config, c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("--cert-file and --key-file: %w", err)
		}
	}
	return config, nil
}

// bearer sends the token in the file of this name, as it is when a call begins: tokens are changed while a watch runs.
type bearer string

// GetRequestMetadata gives the token. gRPC asks for it.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(string(b))
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false, since the settings were checked: without TLS the server is on this machine.
func (b bearer) RequireTransportSecurity() bool { return false }

// readToken never says what is in the file.
func readToken(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("--token-file: " + file + " does not hold a token: one line of printable ASCII")
	}
	return token, nil
}

// call makes one call of AdminService, and explains its failure.
func call[Request, Response any](
	ctx context.Context, c *connection, method func(pb.AdminServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	var none Response
	conn, err := c.dial()
	if err != nil {
		return none, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	response, err := method(pb.NewAdminServiceClient(conn), ctx, request)
	if err != nil {
		return none, explain(err)
	}
	return response, nil
}
