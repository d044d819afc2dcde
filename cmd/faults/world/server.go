package world

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local/link"
)

// Server is one Holdfast, which may be ended and started again.
type Server struct {
	*program.Server

	Callers, ToPostgres *link.Link
	ToRedis             *link.Link   // nil where it learns from others where Redis is
	ToSentinels         []*link.Link // by which it learns that
	Environment         []string
	Program             string // another than the world's; empty: that one

	world *World
}

// Add starts one more server.
func (w *World) Add(ctx context.Context) (*Server, error) {
	s := &Server{world: w}
	if err := s.connect(); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.Callers, err = link.New(s.Addr()); err != nil {
		return nil, err
	}
	w.Servers = append(w.Servers, s)
	return s, nil
}

// connect makes the links to the stores.
func (s *Server) connect() (err error) {
	if s.ToPostgres, err = link.New(s.world.Postgres.Addr()); err != nil {
		return err
	}
	if s.world.Redis != nil {
		s.ToRedis, err = link.New(s.world.Redis.Addr())
		return err
	}
	if s.world.Sentinel == nil {
		return nil
	}
	for _, sentinel := range s.world.Sentinel.Sentinels {
		to, err := link.New(sentinel.Addr())
		if err != nil {
			return err
		}
		s.ToSentinels = append(s.ToSentinels, to)
	}
	return nil
}

// links are all of the server's.
func (s *Server) links() []*link.Link {
	all := append(slices.Clone(s.ToSentinels), s.Callers, s.ToPostgres, s.ToRedis)
	return slices.DeleteFunc(all, func(l *link.Link) bool { return l == nil })
}

// Start starts a server that has ended, for callers at the same address.
func (s *Server) Start(ctx context.Context) error {
	started, err := program.Serve(ctx, cmp.Or(s.Program, s.world.Holdfast), s.stores(), program.Settings{
		Flags: s.world.Flags, Environment: s.Environment,
	})
	if err != nil {
		return err
	}
	s.Server = started
	if s.Callers == nil {
		return nil
	}
	return s.Callers.Lead(s.Addr())
}

func (s *Server) stores() program.Stores {
	return program.Stores{RedisURL: s.redisURL(), PostgresURL: through(s.ToPostgres, s.world.Postgres.URL(database))}
}

func (s *Server) redisURL() string {
	switch {
	case s.world.Sentinel != nil:
		text := s.world.Sentinel.URL()
		for i, sentinel := range s.world.Sentinel.Sentinels {
			text = strings.Replace(text, sentinel.Addr(), s.ToSentinels[i].Addr(), 1)
		}
		return text
	case s.world.Cluster != nil:
		return s.world.Cluster.URL()
	}
	user := s.world.User
	if user != "" {
		user += "@"
	}
	return "redis://" + user + s.ToRedis.Addr() + "/0"
}

// through is a URL that leads over a link.
func through(l *link.Link, text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(fmt.Sprintf("a private server's URL: %v", err)) // it is ours
	}
	u.Host = l.Addr()
	return u.String()
}

// Running tells whether the server's process is there.
func (s *Server) Running() bool {
	select {
	case <-s.Ended():
		return false
	default:
		return true
	}
}
