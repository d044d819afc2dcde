package wire

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-inventory/holdfast/cmd/launch/noop"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// asServer makes the test's program the server of the benchmarks: as a process of its own, its CPU is not counted.
const asServer = "TEST_RUNS_AS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr())
		if err := noop.Serve(context.Background(), l, 1<<62); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func serverProcess(b *testing.B) string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	server := exec.CommandContext(context.WithoutCancel(b.Context()), self)
	server.Env = append(os.Environ(), asServer+"=1", "GOGC=400")
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func report(b *testing.B, before time.Duration) {
	b.Helper()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

const inFlight = 64

// BenchmarkWire and BenchmarkGRPC make the same calls, 64 at once. What counts is cpu-ns/op.
func BenchmarkWire(b *testing.B) {
	address := serverProcess(b)
	ended := make(chan struct{})
	var c *caller
	sent, came := 0, 0
	data, err := proto.Marshal(request(1))
	if err != nil {
		b.Fatal(err)
	}
	c = newCaller(b, func(o *Options) {
		o.Handle = func(a *Answer) {
			if came++; came == b.N {
				close(ended)
			}
			if sent < b.N {
				sent++
				if err := a.Send(create, 0, data); err != nil {
					b.Error(err)
				}
			}
		}
	}, address)
	before := cpu(b)
	b.ResetTimer()
	sent = min(inFlight, b.N)
	for range sent {
		if err := c.client.Send(create, 0, data); err != nil {
			b.Fatal(err)
		}
	}
	c.client.Flush()
	<-ended
	report(b, before)
}

func BenchmarkGRPC(b *testing.B) {
	conn, err := grpc.NewClient(serverProcess(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	client := pb.NewInventoryServiceClient(conn)
	before := cpu(b)
	b.ResetTimer()
	var callers sync.WaitGroup
	for i := range inFlight {
		callers.Go(func() {
			for n := i; n < b.N; n += inFlight {
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				if _, err := client.CreateHold(ctx, request(1)); err != nil {
					b.Error(err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	report(b, before)
}
