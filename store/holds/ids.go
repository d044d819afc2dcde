package holds

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	uuidMark  = "\x01" // never begins an id of a caller: those are printable
	uuidChars = 36
	uuidBytes = 16
)

// pack is the form of a caller's id in Redis: a UUID in lower case takes 17 bytes instead of 36,
// any other text is kept as it is.
func pack(id string) string {
	if len(id) != uuidChars || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' ||
		strings.ToLower(id) != id {
		return id
	}
	raw, err := hex.DecodeString(id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:])
	if err != nil {
		return id
	}
	return uuidMark + string(raw)
}

// unpack is the caller's id again.
func unpack(packed string) string {
	raw, marked := strings.CutPrefix(packed, uuidMark)
	if !marked || len(raw) != uuidBytes {
		return packed
	}
	text := hex.EncodeToString([]byte(raw))
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

const (
	nameBytes   = 16  // of a tag: they name the hold at its buyer
	rawTagBytes = 24  // of a tag in Redis: its text form takes 32
	oddTagMark  = "?" // in front of what stands in the place of a tag, but is none
)

// packTag is the form of a tag in Redis: the bytes that its text form encodes.
func packTag(tag string) string {
	if odd, marked := strings.CutPrefix(tag, oddTagMark); marked {
		return odd
	}
	raw, err := base64.RawURLEncoding.DecodeString(tag)
	if err != nil || len(raw) != rawTagBytes {
		return tag
	}
	return string(raw)
}

// nameOf is the part of a tag in Redis that names the hold at its buyer.
func nameOf(tag string) string {
	raw := packTag(tag)
	return raw[:min(nameBytes, len(raw))]
}

// unpackTag is the tag's text form again. Anything else comes back marked, so that packTag finds it.
func unpackTag(packed string) string {
	if len(packed) != rawTagBytes {
		return oddTagMark + packed
	}
	return base64.RawURLEncoding.EncodeToString([]byte(packed))
}

// fingerprint tells a cart's content: empty for a single line, whose quantity is in its record.
func fingerprint(lines []store.PlacedLine) string {
	if len(lines) == 1 {
		return ""
	}
	h := sha256.New()
	for _, l := range lines {
		h.Write([]byte(l.Allotment + " " + strconv.FormatInt(l.Quantity, 10) + "\n"))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

const memberSeparator = " "

func joinMembers(ids []store.HoldID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, memberSeparator)
}

func splitMembers(text string) ([]store.HoldID, error) {
	if text == "" {
		return nil, nil
	}
	var ids []store.HoldID
	for member := range strings.SplitSeq(text, memberSeparator) {
		id, err := store.ParseHoldID(member)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
