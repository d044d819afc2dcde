// Package lua holds the scripts that are the only way Holdfast changes Redis: one file for each
// operation, each with the prelude in front. It only embeds; store/holds calls them.
package lua

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"strings"
	"sync"
)

//go:embed *.lua parts/*.lua
var files embed.FS

const prelude = "prelude.lua"

// include stands where a script wants a part: making functions that it does not use costs, at each call.
var include = regexp.MustCompile(`(?m)^ *-- include (\w+)$`)

// Script is one operation, as Redis is to load it.
type Script struct {
	Name   string // of its file, without the ending
	Source string // the prelude and the file with its parts, constants folded
	SHA    string // by which EVALSHA calls it
}

// Scripts returns every script by its name. They are read once: folding takes a while.
func Scripts() (map[string]Script, error) {
	all, err := scripts()
	return maps.Clone(all), err
}

var scripts = sync.OnceValues(read)

func read() (map[string]Script, error) {
	names, err := fs.Glob(files, "*.lua")
	if err != nil {
		return nil, err
	}
	all := make(map[string]Script, len(names))
	for _, file := range names {
		if file == prelude {
			continue
		}
		name := strings.TrimSuffix(file, ".lua")
		source, err := assemble(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
		all[name] = Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
	}
	return all, nil
}

// assemble puts the prelude in front of a script and its parts into it.
func assemble(file string) (string, error) {
	head, err := files.ReadFile(prelude)
	if err != nil {
		return "", err
	}
	body, err := files.ReadFile(file)
	if err != nil {
		return "", err
	}
	source := include.ReplaceAllStringFunc(string(body), func(line string) string {
		part, failed := files.ReadFile("parts/" + include.FindStringSubmatch(line)[1] + ".lua")
		if failed != nil {
			err = failed
		}
		return strings.TrimSuffix(string(part), "\n")
	})
	if err != nil {
		return "", err
	}
	return fold(string(head) + "\n" + source)
}
