package server

import (
	"context"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// gRPC answers a request that it can not decode with INTERNAL, so that a caller's text that is not UTF-8 looks
// like a fault of ours. What follows makes it INVALID_ARGUMENT and names the field: handlers and streams
// receive into a decoding, and the codec leaves its failure there instead of giving it to gRPC.

// decoding is a message to receive, and why it could not be.
type decoding struct {
	into any
	err  *failure
}

// codec is gRPC's own for protobuf, but for requests received into a decoding.
type codec struct{ encoding.CodecV2 }

// newCodec finds gRPC's codec, which registers itself.
func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal never fails for a decoding.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	d, ok := v.(*decoding)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if err := c.CodecV2.Unmarshal(data, d.into); err != nil {
		d.err = undecodable(data.Materialize(), d.into)
	}
	return nil
}

// receive receives a request by way of a decoding.
func receive(from func(any) error, into any) error {
	d := &decoding{into: into}
	if err := from(d); err != nil {
		return err
	}
	if d.err != nil {
		return d.err
	}
	return nil
}

// receiving is a service whose unary handlers receive their requests by way of a decoding, once they are past the door.
// Streams do so in their interceptor.
func (i *interceptors) receiving(service grpc.ServiceDesc) *grpc.ServiceDesc {
	service.Methods = slices.Clone(service.Methods)
	for n := range service.Methods {
		handler, name := service.Methods[n].Handler, "/"+service.ServiceName+"/"+service.Methods[n].MethodName
		service.Methods[n].Handler = func(
			srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (any, error) {
			return i.atDoor(ctx, name, func() (any, error) {
				return handler(srv, ctx, func(v any) error { return receive(dec, v) }, interceptor)
			})
		}
	}
	return &service
}

func undecodable(data []byte, into any) *failure {
	message, ok := into.(proto.Message)
	if !ok {
		return internal(errPanic)
	}
	descriptor := message.ProtoReflect().Descriptor()
	if path := brokenText(data, descriptor, ""); path != "" {
		return invalid(violation(path, "must be UTF-8"))
	}
	return invalid(violation("", "the request is not a "+string(descriptor.FullName())))
}

// brokenText finds the first text in an encoded message that is not UTF-8, and returns its path.
func brokenText(data []byte, message protoreflect.MessageDescriptor, path string) string {
	seen := map[protowire.Number]int{}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return ""
		}
		data = data[n:]
		size := protowire.ConsumeFieldValue(number, kind, data)
		if size < 0 {
			return ""
		}
		field := message.Fields().ByNumber(number)
		if field != nil && kind == protowire.BytesType {
			name := path + string(field.Name())
			if field.IsList() {
				name += "[" + strconv.Itoa(seen[number]) + "]"
				seen[number]++
			}
			value, _ := protowire.ConsumeBytes(data)
			if field.Kind() == protoreflect.StringKind && !utf8.Valid(value) {
				return name
			}
			if field.Message() != nil {
				if broken := brokenText(value, field.Message(), name+"."); broken != "" {
					return broken
				}
			}
		}
		data = data[size:]
	}
	return ""
}
