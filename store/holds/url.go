package holds

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// kind is how Redis is deployed.
type kind int

const (
	standalone kind = iota
	sentinel        // one master, named by Sentinels
	cluster         // several masters, each with some of the slots
)

// target is where a URL leads.
type target struct {
	kind    kind
	scheme  string
	hosts   []string       // host:port; of the server, the Sentinels, or some of the cluster's nodes
	master  string         // its name at the Sentinels
	options *redis.Options // of connections to Redis itself: user, database, TLS; the address is that of the first host

	sentinelUser, sentinelPassword string
}

var kinds = map[string]kind{
	"redis": standalone, "rediss": standalone, "redis-sentinel": sentinel, "rediss-sentinel": sentinel,
	"redis-cluster": cluster, "rediss-cluster": cluster,
}

var defaultPorts = map[kind]string{standalone: "6379", sentinel: "26379", cluster: "6379"}

var errNoURL = errors.New("is not a URL; special characters in user and password must be percent-encoded")

// CheckURL says what is wrong with the URL of a Redis, without showing what it is. README.md has the forms.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// RedactedURL is what of a URL may be shown: where it leads, and not how to get in.
func RedactedURL(text string) string {
	t, err := parseURL(text)
	if err != nil {
		return "not a URL"
	}
	shown := t.scheme + "://" + strings.Join(t.hosts, ",")
	switch t.kind {
	case standalone:
		return fmt.Sprintf("%s/%d", shown, t.options.DB)
	case sentinel:
		return fmt.Sprintf("%s/%s?db=%d", shown, t.master, t.options.DB)
	default:
		return shown
	}
}

// parseURL takes the URL apart by hand as far as it is not one by the book: those have one host.
func parseURL(text string) (*target, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	kind, known := kinds[scheme]
	if !known {
		return nil, errors.New("must begin with redis://, redis-sentinel:// or redis-cluster://, or with rediss in place of redis for TLS")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(path, "@#") || strings.Contains(query, "@") || strings.Contains(authority, "#") {
		return nil, errNoURL // a password that ends the authority early must not be taken for something to show
	}
	t := &target{kind: kind, scheme: scheme}
	user := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	if err := t.setHosts(authority); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errNoURL
	}
	if path, err = t.setPath(path, values); err != nil {
		return nil, err
	}
	plain, _, _ := strings.Cut(scheme, "-")
	t.options, err = redis.ParseURL(plain + "://" + user + t.hosts[0] + "/" + path + "?" + values.Encode())
	var parse *url.Error
	if errors.As(err, &parse) {
		return nil, errNoURL // its own text has the password
	}
	if err != nil {
		return nil, err
	}
	if kind == cluster && t.options.DB != 0 {
		return nil, errors.New("has a database, but a cluster has only database 0")
	}
	return t, nil
}

func (t *target) setHosts(list string) error {
	for host := range strings.SplitSeq(list, ",") {
		u, err := url.Parse("redis://" + host)
		if err != nil {
			return errNoURL
		}
		if u.Hostname() == "" {
			return errors.New("names no host")
		}
		port := u.Port()
		if port == "" {
			port = defaultPorts[t.kind]
		}
		t.hosts = append(t.hosts, net.JoinHostPort(u.Hostname(), port))
	}
	if t.kind == standalone && len(t.hosts) > 1 {
		return errors.New("names several hosts: that is for redis-sentinel:// and redis-cluster://")
	}
	return nil
}

// setPath takes from path and values what is ours, and returns what is left of the path.
func (t *target) setPath(path string, values url.Values) (string, error) {
	if t.kind != sentinel {
		return path, nil
	}
	name, err := url.PathUnescape(strings.TrimSuffix(path, "/"))
	if err != nil || name == "" || strings.ContainsAny(name, "/ ") {
		return "", errors.New("must name the master as the Sentinels do: redis-sentinel://HOST:PORT,HOST:PORT/NAME")
	}
	t.master = name
	t.sentinelUser, t.sentinelPassword = values.Get("sentinel_username"), values.Get("sentinel_password")
	values.Del("sentinel_username")
	values.Del("sentinel_password")
	return "", nil
}

// secure takes what else is to be trusted and shown when connections are TLS.
func (t *target) secure(config *tls.Config) {
	if config != nil && t.options.TLSConfig != nil {
		name := t.options.TLSConfig.ServerName
		t.options.TLSConfig = config.Clone()
		t.options.TLSConfig.ServerName = name
	}
}

// optionsAt is the options of connections to one server.
func optionsAt(o *redis.Options, addr string) *redis.Options {
	own := *o
	own.Addr = addr
	if o.TLSConfig != nil {
		host, _, _ := net.SplitHostPort(addr) // it has a port
		own.TLSConfig = o.TLSConfig.Clone()
		own.TLSConfig.ServerName = host
	}
	return &own
}

// sentinelOptions are those of connections to a Sentinel, which has users of its own and no databases.
func (t *target) sentinelOptions(addr string) *redis.Options {
	o := optionsAt(t.options, addr)
	o.DB, o.Username, o.Password = 0, t.sentinelUser, t.sentinelPassword
	o.PoolSize = 2
	return o
}
