package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// call sends a request given as JSON and returns the error.
func (b *bench) call(t testing.TB, method string, request object) error {
	t.Helper()
	return b.send(t, method, requestOf(t, method, request))
}

// requestOf makes the request of a method that is given as JSON.
func requestOf(t testing.TB, method string, request object) proto.Message {
	t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return message(t, method, text)
}

// message is a request given as JSON.
func message(t testing.TB, method string, text []byte) proto.Message {
	t.Helper()
	made := newMessage(t, methodNamed(t, method).Input())
	if err := protojson.Unmarshal(text, made); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return made
}

// send sends a request of any form and returns the error.
func (b *bench) send(t testing.TB, method string, request any, options ...grpc.CallOption) error {
	t.Helper()
	descriptor := methodNamed(t, method)
	var response any = &[]byte{}
	if _, ok := request.(proto.Message); ok {
		response = newMessage(t, descriptor.Output())
	}
	name := fmt.Sprintf("/%s/%s", descriptor.Parent().FullName(), descriptor.Name())
	if !descriptor.IsStreamingServer() {
		return b.conn.Invoke(t.Context(), name, request, response, options...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name, options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(response); err != nil && err.Error() != "EOF" {
		return err
	}
	return nil
}

func newMessage(t testing.TB, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

func methodNamed(t testing.TB, name string) protoreflect.MethodDescriptor {
	t.Helper()
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_holdfast_v1_inventory_service_proto, pb.File_holdfast_v1_admin_service_proto,
	} {
		if m := file.Services().Get(0).Methods().ByName(protoreflect.Name(name)); m != nil {
			return m
		}
	}
	t.Fatalf("no method %s", name)
	return nil
}

// changed is a deep copy of a request with another value at path.
func changed(request object, path string, value any) object {
	text, _ := json.Marshal(request)
	var copied object
	_ = json.Unmarshal(text, &copied)
	at := copied
	for {
		head, rest, more := strings.Cut(path, ".")
		if !more {
			break
		}
		at, path = at[head].(object), rest
	}
	if value == nil {
		delete(at, path)
	} else {
		at[path] = value
	}
	return copied
}

// paths lists the fields of a message that a caller sets.
func paths(d protoreflect.MessageDescriptor, prefix string) []string {
	var all []string
	for n := range d.Fields().Len() {
		field := d.Fields().Get(n)
		path := prefix + string(field.Name())
		ours := field.Message() != nil && field.Message().ParentFile().Package() == "holdfast.v1"
		switch {
		case strings.HasPrefix(path, "allotment.") && slices.Contains([]string{"etag", "create_time", "update_time"}, string(field.Name())):
		case ours && !field.IsList():
			all = append(all, paths(field.Message(), path+".")...)
		default:
			all = append(all, path)
		}
	}
	return all
}

// brokenRequests makes, for each text field of a message, an encoded one in which that field is not UTF-8.
func brokenRequests(d protoreflect.MessageDescriptor, prefix string) map[string][]byte {
	all := map[string][]byte{}
	for n := range d.Fields().Len() {
		field := d.Fields().Get(n)
		path := prefix + string(field.Name())
		if field.IsList() {
			path += "[0]"
		}
		tag := protowire.AppendTag(nil, field.Number(), protowire.BytesType)
		if field.Kind() == protoreflect.StringKind {
			all[path] = protowire.AppendString(tag, "a\xff")
		}
		if field.Message() != nil {
			for inner, encoded := range brokenRequests(field.Message(), path+".") {
				all[inner] = protowire.AppendBytes(slices.Clone(tag), encoded)
			}
		}
	}
	return all
}

func camelCased(names []string) []string {
	return each(names, func(name string) string {
		words := strings.Split(name, "_")
		for n, word := range words[1:] {
			words[n+1] = strings.ToUpper(word[:1]) + word[1:]
		}
		return strings.Join(words, "")
	})
}

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
