package store_test

import (
	"encoding/base64"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// Ids are kept by callers and in the ledger for ever: they must never come out otherwise.
func TestHoldIDGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, allotment, buyer, request, want string }{
		{"plain", "show", "buyer", "request", "show.0nrgRCsKHHXy3FubV85KOkwoIvi6lDBB"},
		{"UUIDs", "2b0d7b3d-30a0-4ee4-b2f3-5d4d9ae43b43", "0a1f6a5e-7d8b-4c3d-9e2f-1a2b3c4d5e6f",
			"ffffffff-ffff-4fff-8fff-ffffffffffff", "2b0d7b3d-30a0-4ee4-b2f3-5d4d9ae43b43.w_V-PJTGrQwbFap8Q-eHvmUqHGBnwJhD"},
		{"a shrink has no buyer", "show", "", "request", "show.GhpxzCVWFdeLssDO4QyeRNL9OgfXnJDK"},
		{"parts do not run together", "show", "buyerr", "equest", "show.1738xSIvUJHrWeMrFSPWk0ZxOgiUplT8"},
		{"not ASCII", "show", "Zoë", "注文", "show.DDXVbfsTddN4V5sw2M5lmy0FuTyn-3Yw"},
	} {
		if got := store.NewHoldID(c.allotment, c.buyer, c.request).String(); got != c.want {
			t.Errorf("%s: NewHoldID(%q, %q, %q) = %s, want %s", c.name, c.allotment, c.buyer, c.request, got, c.want)
		}
	}
}

// The README shows real calls: each hold id in it is that of a buyer and a request in it.
func TestReadmeShowsRealIDs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`"allotment_id":"([^"]+)","buyer_id":"([^"]+)","request_id":"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		made[store.NewHoldID(m[1], m[2], m[3]).String()] = true
	}
	shown := regexp.MustCompile(`\bconcert\.[A-Za-z0-9_-]+`).FindAllString(string(text), -1)
	if len(shown) == 0 || len(made) == 0 {
		t.Fatal("the README shows no hold")
	}
	for _, id := range shown {
		if !made[id] {
			t.Errorf("the README shows %s, which no call in it makes", id)
		}
	}
}

func TestHoldIDRoundTrip(t *testing.T) {
	t.Parallel()
	for _, allotment := range []string{"a", "show", "0", strings.Repeat("x", 63), "a-b-c"} {
		id := store.NewHoldID(allotment, "buyer", "request")
		got, err := store.ParseHoldID(id.String())
		if err != nil || got != id {
			t.Errorf("ParseHoldID(%s) = %v, %v", id, got, err)
		}
	}
}

func TestParseHoldIDRefuses(t *testing.T) {
	t.Parallel()
	good := store.NewHoldID("show", "buyer", "request")
	for name, text := range map[string]string{
		"nothing":              "",
		"no tag":               "show",
		"an empty tag":         "show.",
		"no allotment":         "." + good.Tag,
		"a short tag":          "show." + good.Tag[1:],
		"a long tag":           "show." + good.Tag + "A",
		"capitals":             "Show." + good.Tag,
		"a leading hyphen":     "-show." + good.Tag,
		"a long allotment":     strings.Repeat("x", 64) + "." + good.Tag,
		"another alphabet":     "show." + strings.Repeat("+", 24),
		"padding":              "show." + good.Tag[:23] + "=",
		"a space":              "show." + good.Tag[:23] + " ",
		"a second point":       "show.x." + good.Tag,
		"a NUL":                "show\x00." + good.Tag,
		"braces":               "{show}." + good.Tag,
		"a blank in front":     " " + good.String(),
		"a line break at last": good.String() + "\n",
	} {
		if got, err := store.ParseHoldID(text); !errors.Is(err, store.ErrBadHoldID) {
			t.Errorf("%s: ParseHoldID(%q) = %v, %v, want ErrBadHoldID", name, text, got, err)
		}
	}
}

// Go's base64 leaves out line breaks, so that a text of the right length may hold fewer bytes.
func TestParseHoldIDLineBreaks(t *testing.T) {
	t.Parallel()
	text := "show." + strings.Repeat("A", 28) + "\n\n\n\n"
	if got, err := store.ParseHoldID(text); !errors.Is(err, store.ErrBadHoldID) {
		t.Errorf("ParseHoldID(%q) = %v, %v, want ErrBadHoldID", text, got, err)
	}
}

// FuzzParseHoldID: what is accepted is exactly what String gives, and no text breaks what follows.
func FuzzParseHoldID(f *testing.F) {
	f.Add("show." + strings.Repeat("A", 32))
	f.Add(store.NewHoldID("a-1", "b", "c").String())
	f.Add("show." + strings.Repeat("A", 28) + "\n\n\n\n")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := store.ParseHoldID(text)
		if err != nil {
			return
		}
		raw, err := base64.RawURLEncoding.Strict().DecodeString(id.Tag)
		if err != nil || base64.RawURLEncoding.EncodeToString(raw) != id.Tag {
			t.Errorf("ParseHoldID(%q) accepts a tag that is none", text)
		}
		if id.String() != text || !store.ValidAllotmentID(id.Allotment) {
			t.Errorf("ParseHoldID(%q) = %+v", text, id)
		}
		if n := id.Bucket(16); n < 0 || n > 15 {
			t.Errorf("Bucket(16) = %d", n)
		}
	})
}

// The scripts that know only a hold's id must find the hash of its buyer.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 1<<16; n *= 2 {
		seen := map[int]bool{}
		for i := range 200 {
			buyer := strings.Repeat("b", i)
			id := store.NewHoldID("show", buyer, "request")
			bucket := id.Bucket(n)
			if bucket < 0 || bucket >= n {
				t.Fatalf("Bucket(%d) = %d", n, bucket)
			}
			seen[bucket] = true
			if want := store.NewBuyerKey("show", buyer).Bucket(n); bucket != want {
				t.Fatalf("Bucket(%d) of the id = %d, of the buyer %d", n, bucket, want)
			}
		}
		if n == 16 && len(seen) != n {
			t.Errorf("200 holds lie in %d of %d buckets", len(seen), n)
		}
	}
	odd := store.HoldID{Allotment: "show", Tag: "?"}
	if odd.Bucket(16) != 0 {
		t.Error("what is no tag is not looked for in bucket 0")
	}
}

func TestBucketsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		capacity int64
		want     int
	}{
		{0, 1}, {1, 1}, {8192, 1}, {8193, 2}, {100_000, 16}, {8192 * 65536, 65536},
		{store.MaxCapacity, 65536}, {1 << 53, 65536},
	} {
		if got := store.BucketsFor(c.capacity); got != c.want {
			t.Errorf("BucketsFor(%d) = %d, want %d", c.capacity, got, c.want)
		}
	}
}

func TestValidAllotmentID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"a": true, "0": true, "a-": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "A": false, "a_b": false, "a.b": false, "a b": false, "ä": false,
		strings.Repeat("a", 64): false, "a\n": false, "{a}": false,
	} {
		if got := store.ValidAllotmentID(id); got != want {
			t.Errorf("ValidAllotmentID(%q) = %v", id, got)
		}
	}
}
