package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

func TestEtag(t *testing.T) {
	for _, version := range []int64{0, 1, 63, 64, 1 << 40} {
		got, err := parseEtag("etag", formatEtag(version))
		if err != nil || got != version {
			t.Errorf("version %d comes back as %d, %v", version, got, err)
		}
	}
	for _, bad := range []string{"", "1", "e", formatEtag(1) + "A", formatPage(salesKind, "x"), "ZQL="} {
		if got, err := parseEtag("etag", bad); err == nil {
			t.Errorf("%q is taken for version %d", bad, got)
		}
	}
}

func TestPages(t *testing.T) {
	if got, err := parsePage(salesKind, formatPage(salesKind, aHold, "a", "b"), "a", "b"); err != nil || got != aHold {
		t.Errorf("came back as %q, %v", got, err)
	}
	if token := formatPage(salesKind, "", "a"); token != "" {
		t.Errorf("the last page has token %q", token)
	}
	token := formatPage(salesKind, aHold, "ab", "c")
	for _, filters := range [][]string{{"a", "bc"}, {"ab"}, {"ab", "c", ""}} {
		if _, err := parsePage(salesKind, token, filters...); err == nil {
			t.Errorf("token is accepted with filters %q", filters)
		}
	}
	if _, err := parsePage(holdsKind, token, "ab", "c"); err == nil {
		t.Error("token of sales is accepted for holds")
	}
}

func TestPaging(t *testing.T) {
	f := &fake{many: 3, next: "cursor"}
	b := startServer(t, f, nil)
	first, err := b.admin.ListAllotments(t.Context(), &pb.ListAllotmentsRequest{PageSize: 2})
	if err != nil || len(first.GetAllotments()) != 2 || first.GetNextPageToken() == "" {
		t.Fatalf("first page: %v, %v", first, err)
	}
	f.many = 2
	last, err := b.admin.ListAllotments(t.Context(), &pb.ListAllotmentsRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
	if err != nil || len(last.GetAllotments()) != 2 || last.GetNextPageToken() != "" {
		t.Fatalf("last page: %v, %v", last, err)
	}
	holds, err := b.admin.ListHolds(t.Context(), &pb.ListHoldsRequest{AllotmentId: "concert"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.admin.ListHolds(t.Context(), &pb.ListHoldsRequest{AllotmentId: "concert", PageToken: holds.GetNextPageToken()}); err != nil {
		t.Fatal(err)
	}
	sales, err := b.admin.ListSales(t.Context(), &pb.ListSalesRequest{PageSize: 1, OrderId: "o"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.admin.ListSales(t.Context(), &pb.ListSalesRequest{PageSize: 1, OrderId: "p", PageToken: sales.GetNextPageToken()})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a token is accepted with other filters: %v", err)
	}
	want := []call{
		{"ListAllotments", []any{"", 3}},
		{"ListAllotments", []any{"b", 3}},
		{"ListHolds", []any{store.HoldFilter{Allotment: "concert", States: []store.HoldState{}}, "", defaultPage}},
		{"ListHolds", []any{store.HoldFilter{Allotment: "concert", States: []store.HoldState{}}, "cursor", defaultPage}},
		{"ListSales", []any{store.SaleFilter{OrderID: "o"}, "", 2}},
	}
	if diff := cmp.Diff(want, f.taken(), cmp.AllowUnexported(call{})); diff != "" {
		t.Errorf("called otherwise (-want +got):\n%s", diff)
	}
}
