package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const loseEvery = 20 // 5 %

// lossy is a proxy that ends the caller's connection in place of every 20th reply of each method, when the server has worked.
type lossy struct {
	net.Listener

	upstream *grpc.ClientConn
	mu       sync.Mutex
	conns    map[string]net.Conn // of callers, by address
	requests map[string]int64    // by method
	granted  atomic.Int64        // lost replies that had a hold
}

func newLossy(t *testing.T, addr string) *lossy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	l := &lossy{Listener: listener, upstream: upstream, conns: map[string]net.Conn{}, requests: map[string]int64{}}
	server := grpc.NewServer(grpc.UnaryInterceptor(l.forward))
	pb.RegisterInventoryServiceServer(server, pb.UnimplementedInventoryServiceServer{})
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(<-serving, upstream.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Accept keeps the connections, to cut them.
func (l *lossy) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns[conn.RemoteAddr().String()] = conn
	}
	return conn, err
}

func (l *lossy) forward(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(info.FullMethod, "/"), "/", "."))
	method, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		return nil, err
	}
	reply := kind.New().Interface()
	var trailer metadata.MD
	err = l.upstream.Invoke(ctx, info.FullMethod, request, reply, grpc.Trailer(&trailer))
	if l.isLost(info.FullMethod) {
		l.lose(ctx, reply, err)
	}
	_ = grpc.SetTrailer(ctx, trailer) // there is a call
	return reply, err
}

// isLost counts a reply, and tells whether it is the 20th of its method.
func (l *lossy) isLost(method string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[method]++
	return l.requests[method]%loseEvery == 0
}

func (l *lossy) lose(ctx context.Context, reply proto.Message, err error) {
	if _, isHold := reply.(*pb.CreateHoldResponse); isHold && err == nil {
		l.granted.Add(1)
	}
	from, _ := peer.FromContext(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conns[from.Addr.String()].Close()
}

func (l *lossy) count(method string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests[method]
}
