// Package caller is how our commands show a service who calls it: whom to trust, and which certificate and token to send.
package caller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-inventory/holdfast/server/auth"
)

// Settings are flags of a command, each of which may also be a variable.
type Settings struct {
	TLS       bool   `name:"tls" env:"HOLDFAST_TLS" help:"Encrypt, and trust the authorities that this machine trusts. Also set by --ca-file and --cert-file."`
	CAFile    string `name:"ca-file" env:"HOLDFAST_CA_FILE" placeholder:"FILE" help:"The authorities (PEM) to trust instead."`
	CertFile  string `name:"cert-file" env:"HOLDFAST_CERT_FILE" placeholder:"FILE" help:"The certificate (PEM) to show to the server. Needs --key-file."`
	KeyFile   string `name:"key-file" env:"HOLDFAST_KEY_FILE" placeholder:"FILE" help:"Its private key (PEM)."`
	TokenFile string `name:"token-file" env:"HOLDFAST_TOKEN_FILE" placeholder:"FILE" help:"The file whose content is sent as bearer token; it may change meanwhile. Needs TLS, but for a server on this machine."`
}

// Problems says what is wrong with the settings, for calls to these addresses. An address that is none is not looked at.
func (s *Settings) Problems(addresses ...string) []string {
	var all []string
	if (s.CertFile == "") != (s.KeyFile == "") {
		all = append(all, "--cert-file (HOLDFAST_CERT_FILE) and --key-file (HOLDFAST_KEY_FILE): give both or none")
	}
	if s.TokenFile == "" || s.encrypted() {
		return all
	}
	for _, address := range addresses {
		if host, _, err := net.SplitHostPort(address); err == nil && !loopback(host) {
			all = append(all, fmt.Sprintf("--token-file (HOLDFAST_TOKEN_FILE): would be sent to %q in the clear: "+
				"give --ca-file, or --tls", address))
		}
	}
	return all
}

func (s *Settings) encrypted() bool { return s.TLS || s.CAFile != "" || s.CertFile != "" }

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Credentials are what Settings name, ready to be used.
type Credentials struct {
	TLS *tls.Config // nil: in the clear

	tokenFile string
}

// Open reads the files. An error names the flag and the file, and shows nothing of what is in it.
func (s *Settings) Open() (*Credentials, error) {
	c := &Credentials{tokenFile: s.TokenFile}
	if s.encrypted() {
		var err error
		if c.TLS, err = s.tls(); err != nil {
			return nil, err
		}
	}
	_, err := c.Authorization()
	return c, err
}

func (s *Settings) tls() (*tls.Config, error) {
	config, err := auth.ClientTLS(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	if s.CertFile != "" {
		if err := auth.Show(config, s.CertFile, s.KeyFile); err != nil {
			return nil, fmt.Errorf("--cert-file and --key-file: %w", err)
		}
	}
	return config, nil
}

// DialOptions make a connection of gRPC's use them.
func (c *Credentials) DialOptions() []grpc.DialOption {
	transport := insecure.NewCredentials()
	if c.TLS != nil {
		transport = credentials.NewTLS(c.TLS)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if c.tokenFile != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{c}))
	}
	return options
}

// Authorization is the header of this name that calls are to have, with the token as it is in its file now: tokens change
// while a command runs. Empty: there is none.
func (c *Credentials) Authorization() (string, error) {
	if c.tokenFile == "" {
		return "", nil
	}
	token, err := readToken(c.tokenFile)
	if err != nil {
		return "", err
	}
	return "Bearer " + token, nil
}

// bearer sends the token, which is read for each call.
type bearer struct{ credentials *Credentials }

// GetRequestMetadata gives the token. gRPC asks for it.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	header, err := b.credentials.Authorization()
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": header}, nil
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
