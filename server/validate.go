package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// validator checks requests against the rules in the proto files.
type validator struct{ rules protovalidate.Validator }

// newValidator compiles the rules of every request of both services.
func newValidator() (*validator, error) {
	var requests []protoreflect.MessageDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_holdfast_v1_inventory_service_proto, pb.File_holdfast_v1_admin_service_proto,
	} {
		for s := range file.Services().Len() {
			methods := file.Services().Get(s).Methods()
			for m := range methods.Len() {
				requests = append(requests, methods.Get(m).Input())
			}
		}
	}
	rules, err := protovalidate.New(
		protovalidate.WithMessageDescriptors(requests...), protovalidate.WithDisableLazy())
	if err != nil {
		return nil, fmt.Errorf("compile the rules of requests: %w", err)
	}
	return &validator{rules: rules}, nil
}

// check returns a failure that names every field whose rule is broken.
func (v *validator) check(request any) error {
	if plain(request) {
		return nil
	}
	message, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", request)
	}
	if update, ok := message.(*pb.UpdateAllotmentRequest); ok {
		forgetIgnored(update)
	}
	err := v.rules.Validate(message)
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) || len(broken.Violations) == 0 {
		return fmt.Errorf("validate: %w", err)
	}
	violations := make([]*errdetails.BadRequest_FieldViolation, 0, len(broken.Violations))
	for _, b := range broken.Violations {
		if listed := maskViolations(message); b.Proto.GetRuleId() == "update_mask.changeable" && len(listed) > 0 {
			violations = append(violations, listed...)
			continue
		}
		violations = append(violations, violation(violatedField(b), problemOf(b)))
	}
	return invalid(violations...)
}

// plain tells, for the request that a launch is made of, that it keeps every rule: ids of ASCII and a quantity that any
// allotment may allow. The rules of the proto files say the same, but take a twelfth of a call for it, most of it for
// patterns. What is not plain is theirs to judge.
func plain(request any) bool {
	r, ok := request.(*pb.CreateHoldRequest)
	return ok && store.ValidAllotmentID(r.GetAllotmentId()) && plainID(r.GetBuyerId()) && plainID(r.GetRequestId()) &&
		r.GetQuantity() >= 1 && r.GetQuantity() <= 1000
}

func plainID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// violatedField is the path of the field to blame. A rule over a whole message is named after the field of it that
// is to be blamed; unlike a field's own rules it comes without the path of the rule.
func violatedField(v *protovalidate.Violation) string {
	path := protovalidate.FieldPathString(v.Proto.GetField())
	switch {
	case len(v.Proto.GetRule().GetElements()) > 0:
		return path
	case path == "":
		return v.Proto.GetRuleId()
	default:
		return path + "." + v.Proto.GetRuleId()
	}
}

// problemOf says for people what is wrong: what is missing is required, and a pattern is put in words.
func problemOf(v *protovalidate.Violation) string {
	id, message := v.Proto.GetRuleId(), v.Proto.GetMessage()
	switch {
	case id == "required", strings.HasPrefix(id, "string.") && v.FieldValue.String() == "":
		return "is required"
	case id == "string.pattern":
		return inWords(v.RuleValue.String())
	case strings.HasSuffix(id, ".not_in"): // the rules leave out nothing else
		return "must not be 0"
	case message == "":
		return "breaks rule " + id
	}
	return message
}

// inWords is what a pattern in the proto files allows.
func inWords(pattern string) string {
	switch pattern {
	case `^[a-z0-9][a-z0-9-]{0,62}$`:
		return "must be 1 to 63 characters: a-z, 0-9 and '-', not starting with '-'"
	case `^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$`:
		return "must be 1 to 128 printable characters"
	}
	return "has characters that are not allowed"
}

// changeable are the fields that UpdateAllotment can change.
func changeable() []string {
	return []string{
		"hold_duration", "max_hold_duration", "max_quantity_per_hold", "max_quantity_per_buyer",
		"opens_at", "closes_at", "state", "late_confirm",
	}
}

func maskViolations(message proto.Message) []*errdetails.BadRequest_FieldViolation {
	update, ok := message.(*pb.UpdateAllotmentRequest)
	if !ok {
		return nil
	}
	var violations []*errdetails.BadRequest_FieldViolation
	for _, path := range update.GetUpdateMask().GetPaths() {
		if !slices.Contains(changeable(), path) {
			violations = append(violations, unchangeable(path))
		}
	}
	return violations
}

func unchangeable(path string) *errdetails.BadRequest_FieldViolation {
	problem := fmt.Sprintf("%q can not be changed: want one of %s", path, strings.Join(changeable(), ", "))
	if path == "capacity" {
		problem = `"capacity" can not be changed here: use AdjustCapacity`
	}
	return violation("update_mask", problem)
}

// forgetIgnored takes out what UpdateAllotment ignores, so that it can't break a rule: a caller may send back
// the whole allotment as it got it.
func forgetIgnored(update *pb.UpdateAllotmentRequest) {
	if update.GetAllotment() == nil {
		return
	}
	named := update.GetUpdateMask().GetPaths()
	allotment := update.GetAllotment().ProtoReflect()
	allotment.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		name := string(field.Name())
		if name != "id" && name != "etag" && !slices.Contains(named, name) {
			allotment.Clear(field)
		}
		return true
	})
}
