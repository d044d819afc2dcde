package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/local"
)

const (
	clusterAllotments = 300
	createTogether    = 16
	lookers           = 8
	lookEvery         = 20 * time.Millisecond
)

// cluster are the faults of a Redis Cluster: three masters, each with a replica.
func cluster() []Case {
	return []Case{{
		Row: record.Row{
			Case: "F09-cluster", Title: "a master of a cluster lost", Deployment: "Cluster, three masters with a replica each, durability none",
			Fault:    "kill -9 of one of three masters, 300 allotments, back as a replica after 3 s (long: 8 s)",
			Expected: "allotments on the other masters see no error and answers within 100 ms; on the lost one as F09-none",
		},
		Proof: []string{"masters killed", "adopts", "answers elsewhere"}, Guards: []string{"trouble"}, Inject: loseClusterMaster,
		Prepare: func(s *world.Settings) { s.Cluster = &local.ClusterOptions{Replicas: 1} },
	}}
}

// loseClusterMaster kills the master of the allotment that is watched, and looks at those on the others.
func loseClusterMaster(ctx context.Context, s *Scene) error {
	elsewhere, err := s.openElsewhere(ctx)
	if err != nil {
		return err
	}
	old, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	looking, stop := context.WithCancel(ctx)
	defer stop()
	look := &look{}
	if err := look.begin(looking, s, elsewhere); err != nil {
		return err
	}
	defer look.end()
	healed := s.Fault("a master of the cluster is killed", true)
	if err := s.outliveMaster(ctx, old); err != nil {
		return err
	}
	if err := errors.Join(old.Restart(ctx), s.InStep(ctx, old)); err != nil {
		return err
	}
	healed()
	stop()
	look.end()
	s.Hit("allotments elsewhere", len(elsewhere))
	look.tell(s)
	return nil
}

// openElsewhere opens the other allotments, and returns those that have another master than the one that is watched.
func (s *Scene) openElsewhere(ctx context.Context) ([]string, error) {
	home, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var elsewhere []string
	var all errgroup.Group
	all.SetLimit(createTogether)
	for i := range clusterAllotments - 1 {
		all.Go(func() error {
			other := s.books.Of(fmt.Sprintf("%s-%d", s.Allotment, i))
			if err := other.Create(ctx, 1_000_000, time.Minute); err != nil {
				return err
			}
			owner, err := s.Master(ctx, other.Allotment)
			if err != nil || owner == home {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			elsewhere = append(elsewhere, other.Allotment)
			return nil
		})
	}
	return elsewhere, all.Wait()
}

// look is callers of allotments, some 400 calls a second, who write down how long they waited, and for what.
type look struct {
	conns []*grpc.ClientConn
	done  sync.WaitGroup

	mu       sync.Mutex
	took     []time.Duration
	troubles map[string]int
}

func (l *look) begin(ctx context.Context, s *Scene, allotments []string) error {
	l.troubles = map[string]int{}
	for _, server := range s.Servers {
		conn, err := grpc.NewClient(server.Callers.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		l.conns = append(l.conns, conn)
	}
	for i := range lookers {
		random := rand.New(rand.NewPCG(s.Rand.Uint64(), 3)) //nolint:gosec // no secrets
		checkout := pb.NewInventoryServiceClient(l.conns[i%len(l.conns)])
		l.done.Go(func() {
			for n := 0; pause(ctx, lookEvery) == nil; n++ {
				allotment := allotments[random.IntN(len(allotments))]
				began := time.Now()
				_, err := checkout.CreateHold(ctx, &pb.CreateHoldRequest{
					AllotmentId: allotment, BuyerId: fmt.Sprintf("looker-%d-%d", i, n), RequestId: "request", Quantity: 1,
				})
				l.note(time.Since(began), err)
			}
		})
	}
	return nil
}

func (l *look) note(took time.Duration, err error) {
	if status.Code(err) == codes.Canceled {
		return // it is over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	if err != nil {
		l.troubles[err.Error()]++
	}
}

// end waits for the callers, whose context is done.
func (l *look) end() {
	l.done.Wait()
	for _, conn := range l.conns {
		_ = conn.Close() // nothing is left to be lost
	}
	l.conns = nil
}

func (l *look) tell(s *Scene) {
	slices.Sort(l.took)
	s.Hit("answers elsewhere", len(l.took))
	s.Hit("ms at p99 elsewhere", int(percentile99(l.took)))
	var texts []string
	for text, n := range l.troubles {
		s.Hit("errors elsewhere", n)
		texts = append(texts, text)
	}
	if len(texts) > 0 {
		s.Wrong("allotments on the other masters met errors: " + strings.Join(texts, "; "))
	}
}
