package client

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// methodConfig is a part of the service config.
type methodConfig struct {
	Name         []struct{ Service, Method string }
	WaitForReady bool
	Timeout      string
	RetryPolicy  *struct{ RetryableStatusCodes []string }
}

// methodConfigOf finds what the service config says of a method, as gRPC does: its own entry, else the service's.
func methodConfigOf(t *testing.T, method string) methodConfig {
	t.Helper()
	var config struct{ MethodConfig []methodConfig }
	if err := json.Unmarshal([]byte(ServiceConfig), &config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{method, ""} {
		for _, c := range config.MethodConfig {
			for _, n := range c.Name {
				if n.Service == pb.InventoryService_ServiceDesc.ServiceName && n.Method == name {
					return c
				}
			}
		}
	}
	t.Fatalf("%s is not in the service config", method)
	return methodConfig{}
}

// TestServiceConfig: what is for other languages says the same as this package does, as far as gRPC can.
func TestServiceConfig(t *testing.T) {
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(ServiceConfig))
	if err != nil {
		t.Fatalf("gRPC does not take it: %v", err)
	}
	defer conn.Close()
	service := pb.InventoryService_ServiceDesc
	for _, method := range service.Methods {
		c := methodConfigOf(t, method.MethodName)
		timeout, err := time.ParseDuration(c.Timeout)
		if want := paceOf("/" + service.ServiceName + "/" + method.MethodName).all; err != nil || timeout != want {
			t.Errorf("%s: timeout %q, want %v", method.MethodName, c.Timeout, want)
		}
		if !c.WaitForReady || c.RetryPolicy == nil || !slices.Equal(c.RetryPolicy.RetryableStatusCodes, []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"}) {
			t.Errorf("%s: waits %v, retries %+v", method.MethodName, c.WaitForReady, c.RetryPolicy)
		}
	}
	for _, stream := range service.Streams {
		if c := methodConfigOf(t, stream.StreamName); !c.WaitForReady || c.Timeout != "" || c.RetryPolicy != nil {
			t.Errorf("%s: %+v, want it to wait, and neither a timeout nor retries", stream.StreamName, c)
		}
	}
}

// TestPingsAreAccepted: a server ends connections on which a client pings too often, and it takes such a connection a minute to show.
func TestPingsAreAccepted(t *testing.T) {
	source, err := os.ReadFile("../server/server.go")
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile(`EnforcementPolicy\{\s*MinTime: (\d+) \* time\.Second, PermitWithoutStream: true`).FindSubmatch(source)
	if policy == nil {
		t.Fatal("the server's enforcement policy is not found")
	}
	seconds, err := strconv.Atoi(string(policy[1]))
	if least := time.Duration(seconds) * time.Second; err != nil || pingEvery <= least {
		t.Errorf("the client pings every %v, the server allows one in %v", pingEvery, least)
	}
}
