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
	"strings"
	"sync"
)

//go:embed *.lua
var files embed.FS

const prelude = "prelude"

// Script is one operation, as Redis is to load it.
type Script struct {
	Name   string // of its file, without the ending
	Source string // the prelude and the file, constants folded
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
	head, err := files.ReadFile(prelude + ".lua")
	if err != nil {
		return nil, err
	}
	all := make(map[string]Script, len(names))
	for _, file := range names {
		name := strings.TrimSuffix(file, ".lua")
		if name == prelude {
			continue
		}
		body, err := files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		source, err := fold(string(head) + "\n" + string(body))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
		all[name] = Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
	}
	return all, nil
}
