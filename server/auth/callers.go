package auth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
)

// Roles are what a caller may do, or whom a method is for.
type Roles uint8

// The roles. docs/security.md says what each may do.
const (
	Checkout Roles = 1 << iota // holds, sales and availability
	Operator                   // everything about allotments, and to look into them
	Reader                     // reads what names no buyer
	Anyone                     // of a method alone: it asks for no credentials
)

var roleNames = map[string]Roles{"checkout": Checkout, "operator": Operator, "reader": Reader}

// Caller is somebody who may call.
type Caller struct {
	Name  string
	Roles Roles

	allotments []string // prefixes; none: all allotments
	most       int64    // calls in flight; 0: no limit
	inside     atomic.Int64
}

// Limited tells whether a caller may only touch some allotments.
func (c *Caller) Limited() bool { return len(c.allotments) > 0 }

// May tells whether the caller may touch an allotment.
func (c *Caller) May(allotment string) bool {
	for _, prefix := range c.allotments {
		if strings.HasPrefix(allotment, prefix) {
			return true
		}
	}
	return !c.Limited()
}

// Enter counts a call or stream in, which must Leave, unless the caller has as many in flight as it may.
func (c *Caller) Enter() bool {
	if c.most == 0 || c.inside.Add(1) <= c.most {
		return true
	}
	c.inside.Add(-1)
	return false
}

// Leave counts a call out.
func (c *Caller) Leave() {
	if c.most > 0 {
		c.inside.Add(-1)
	}
}

// callers finds them by what they show.
type callers struct {
	byCertificate map[string]*Caller
	byToken       map[[32]byte]*Caller
	bySubject     map[string]*Caller
}

// entry is a caller as the file has it.
type entry struct {
	Name         string   `json:"name"`
	Roles        []string `json:"roles"`
	Certificates []string `json:"certificates"`  // SPIFFE ids or common names
	TokensSHA256 []string `json:"tokens_sha256"` // in hexadecimal
	Subjects     []string `json:"subjects"`      // of JWTs
	Allotments   []string `json:"allotments"`
	MaxInFlight  int64    `json:"max_in_flight"`
}

func parseCallers(content []byte) (*callers, error) {
	var file struct {
		Callers []entry `json:"callers"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); errors.Is(err, io.EOF) {
		return nil, errEmptyFile
	} else if err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("something follows the end of the JSON object")
	}
	known := &callers{map[string]*Caller{}, map[[32]byte]*Caller{}, map[string]*Caller{}}
	names := map[string]bool{}
	for n, e := range file.Callers {
		if e.Name == "" || names[e.Name] {
			return nil, fmt.Errorf("caller %d: its name is missing, or another's", n+1)
		}
		names[e.Name] = true
		if err := known.add(e); err != nil {
			return nil, fmt.Errorf("caller %q: %w", e.Name, err)
		}
	}
	return known, nil
}

func (k *callers) add(e entry) error {
	c := &Caller{Name: e.Name, allotments: e.Allotments, most: e.MaxInFlight}
	for _, name := range e.Roles {
		role, ok := roleNames[name]
		if !ok {
			return fmt.Errorf("roles: there is no role %q: checkout, operator and reader are", name)
		}
		c.Roles |= role
	}
	switch {
	case c.Roles == 0:
		return errors.New("roles: has none")
	case len(e.Certificates)+len(e.TokensSHA256)+len(e.Subjects) == 0:
		return errors.New("has none of certificates, tokens_sha256 and subjects")
	case c.Limited() && c.Roles != Checkout:
		return errors.New("allotments: only a caller with the one role checkout can be limited to some")
	case c.most < 0:
		return errors.New("max_in_flight: must be 1 or more, or 0 for no limit")
	}
	for _, prefix := range e.Allotments {
		if prefix == "" {
			return errors.New("allotments: a prefix is empty; leave allotments out to allow all")
		}
	}
	return errors.Join(
		addAll(k.byCertificate, "certificates", e.Certificates, c, asText),
		addAll(k.byToken, "tokens_sha256", e.TokensSHA256, c, asHash),
		addAll(k.bySubject, "subjects", e.Subjects, c, asText),
	)
}

// addAll names a wrong value by its place alone: it may be a token that somebody forgot to hash.
func addAll[K comparable](to map[K]*Caller, field string, values []string, c *Caller, key func(string) (K, error)) error {
	for n, value := range values {
		k, err := key(value)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", field, n, err)
		}
		if other := to[k]; other != nil {
			return fmt.Errorf("%s[%d]: caller %q has it, too", field, n, other.Name)
		}
		to[k] = c
	}
	return nil
}

func asText(value string) (string, error) {
	if value == "" {
		return "", errors.New("is empty")
	}
	return value, nil
}

func asHash(value string) (hash [32]byte, err error) {
	decoded, err := hex.DecodeString(value)
	if err != nil || len(decoded) != len(hash) {
		return hash, errors.New("must be 64 hexadecimal digits")
	}
	return [32]byte(decoded), nil
}
