// Package clienttest is for tests of programs that call Holdfast.
//
// A [Script] answers what a test tells it to answer, in memory: for the paths of a checkout that a real server takes seldom, such as a lost
// reply. It knows no rules of holds and sales, and is no second implementation of them.
//
// [Dev] is the real service, on a Redis and a Postgres of its own: for all else.
package clienttest

import (
	"context"
	"net"
	"path"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-inventory/holdfast/client"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const pipeSize = 64 << 10

// Script is a server that gives the answers that it was told to, each once, in the order in which it was told. A call for which none is left, or one
// that is another method's, is UNIMPLEMENTED.
type Script struct {
	server   *grpc.Server
	listener *cutter

	mu      sync.Mutex
	answers map[string][]Answer // by method, as CreateHold
	asked   map[string][]proto.Message
}

// NewScript starts one. Close it.
func NewScript() *Script {
	memory := bufconn.Listen(pipeSize)
	s := &Script{listener: &cutter{Listener: memory}, answers: map[string][]Answer{}, asked: map[string][]proto.Message{}}
	s.server = grpc.NewServer(grpc.UnaryInterceptor(s.answer))
	pb.RegisterInventoryServiceServer(s.server, pb.UnimplementedInventoryServiceServer{})
	go func() { _ = s.server.Serve(s.listener) }() // until Close
	return s
}

// Close ends it.
func (s *Script) Close() { s.server.Stop() }

// On adds answers to calls of a method of InventoryService, such as CreateHold, and returns the script.
func (s *Script) On(method string, answers ...Answer) *Script {
	known := slices.ContainsFunc(pb.InventoryService_ServiceDesc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method })
	if !known {
		panic("clienttest: InventoryService has no unary method " + method)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[method] = append(s.answers[method], answers...)
	return s
}

// Asked returns the requests of a method so far, each try one.
func (s *Script) Asked(method string) []proto.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[method])
}

// Client makes a client of the script, as Dial does of a server. Close it.
func (s *Script) Client() *client.Client {
	memory := s.listener.Listener.(*bufconn.Listener) // it was made so
	c, err := client.Dial("passthrough:///script", client.Options{
		Insecure: true, // it never leaves this process
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return memory.DialContext(ctx)
		})},
	})
	if err != nil {
		panic("clienttest: " + err.Error()) // there is nothing in it that could be wrong
	}
	return c
}

// answer gives the next answer in place of the handler.
func (s *Script) answer(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	method, message := path.Base(info.FullMethod), request.(proto.Message) // as gRPC's are
	next := s.next(method, message)
	if next == nil {
		return nil, status.Error(codes.Unimplemented, "clienttest: no answer is left for "+method)
	}
	reply, err := next(ctx, message)
	if err == errLost { //nolint:errorlint // ours alone
		s.listener.cut()
	}
	if err == nil && !answers(reply, method) {
		return nil, status.Errorf(codes.Unimplemented, "clienttest: %T is no answer to %s", reply, method)
	}
	return reply, err
}

// answers tells whether a message is of the kind that a method answers with. To gRPC all are bytes.
func answers(reply proto.Message, method string) bool {
	service := pb.File_holdfast_v1_inventory_service_proto.Services().ByName("InventoryService")
	return reply != nil && reply.ProtoReflect().Descriptor() == service.Methods().ByName(protoreflect.Name(method)).Output()
}

func (s *Script) next(method string, request proto.Message) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[method] = append(s.asked[method], request)
	left := s.answers[method]
	if len(left) == 0 {
		return nil
	}
	s.answers[method] = left[1:]
	return left[0]
}

// cutter is a listener whose connections can be cut.
type cutter struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

// Accept waits for the next connection.
func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // the peer may have been first
	}
	c.conns = nil
}
