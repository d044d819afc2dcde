package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/holdfast-inventory/holdfast/store"
)

// defaultPage is how many items a page has unless the caller says.
const defaultPage = 100

// Etags and page tokens are opaque to callers. Both are base64 of a letter that tells their kind and of
// their content, so that one is not taken for the other.
const (
	etagKind       = 'e'
	allotmentsKind = 'a'
	holdsKind      = 'h'
	salesKind      = 's'
)

func formatEtag(version int64) string {
	raw := binary.AppendVarint([]byte{etagKind}, version)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseEtag(field, text string) (int64, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(raw) > 1 && raw[0] == etagKind {
		if version, n := binary.Varint(raw[1:]); n == len(raw)-1 && formatEtag(version) == text {
			return version, nil
		}
	}
	return 0, &store.InvalidField{Field: field, Problem: "not an etag: want the one last read"}
}

const notAToken = "not a next_page_token of this method"

// filterHashBytes is enough to notice that a token comes with other filters than those it was made for.
const filterHashBytes = 4

// formatPage makes the token of the page after the given item; empty stays empty: there is none.
func formatPage(kind byte, after string, filters ...string) string {
	if after == "" {
		return ""
	}
	raw := append([]byte{kind}, filterHash(filters)...)
	return base64.RawURLEncoding.EncodeToString(append(raw, after...))
}

// parsePage reads a token that formatPage made for the same filters.
func parsePage(kind byte, token string, filters ...string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	head := 1 + filterHashBytes
	if err != nil || len(raw) <= head || raw[0] != kind {
		return "", &store.InvalidField{Field: "page_token", Problem: notAToken}
	}
	if !bytes.Equal(raw[1:head], filterHash(filters)) {
		return "", &store.InvalidField{Field: "page_token", Problem: "was given for other filters: keep them for all pages"}
	}
	after := string(raw[head:])
	if !isItem(kind, after) || formatPage(kind, after, filters...) != token {
		return "", &store.InvalidField{Field: "page_token", Problem: notAToken}
	}
	return after, nil
}

// isItem says whether a token of this kind can name such an item. What those of holds name, the use case checks.
func isItem(kind byte, after string) bool {
	switch kind {
	case allotmentsKind:
		return store.ValidAllotmentID(after)
	case salesKind:
		_, err := store.ParseHoldID(after)
		return err == nil
	}
	return true
}

func filterHash(filters []string) []byte {
	quoted := make([]string, len(filters))
	for n, filter := range filters {
		quoted[n] = hex.EncodeToString([]byte(filter))
	}
	sum := sha256.Sum256([]byte(strings.Join(quoted, "|")))
	return sum[:filterHashBytes]
}

func pageSize(asked int32) int {
	if asked == 0 {
		return defaultPage
	}
	return int(asked)
}

// page cuts off what was read beyond a page only to see whether there is another, and names the last item kept.
func page[T any](items []T, size int, id func(T) string) (kept []T, last string) {
	if len(items) <= size {
		return items, ""
	}
	return items[:size], id(items[size-1])
}
