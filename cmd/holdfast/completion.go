package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The libraries that complete for kong are no longer kept up, so this is ours: the scripts of the shells ask the program
// itself, which knows its commands.

//go:embed completion
var completionScripts embed.FS

// scriptCommand prints the script of a shell.
type scriptCommand struct {
	Shell string `arg:"" name:"shell" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (*scriptCommand) check() error { return nil }

func (c *scriptCommand) run(_ context.Context, out, _ io.Writer) error {
	script, err := completionScripts.ReadFile("completion/" + c.Shell)
	if err != nil {
		return fmt.Errorf("completion: %w", err)
	}
	_, err = out.Write(script)
	return err
}

// wordsCommand completes a command line.
type wordsCommand struct {
	Words []string `arg:"" optional:"" name:"words" help:"The words after holdfast, the one to be completed last."`
}

func (*wordsCommand) check() error { return nil }

func (c *wordsCommand) run(_ context.Context, out, _ io.Writer) error {
	parser, err := kong.New(&cli{}, kong.Vars{"version": versionText()})
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	for _, word := range complete(parser.Model.Node, c.Words) {
		fmt.Fprintln(out, word)
	}
	return nil
}

// complete returns what the last word could be. Nothing: whatever the shell completes otherwise, such as files.
func complete(node *kong.Node, words []string) []string {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "=" }) // bash makes it a word
	if len(words) == 0 {
		words = []string{""}
	}
	last, arguments := words[len(words)-1], 0
	var open *kong.Flag // whose value comes next
	for _, word := range words[:len(words)-1] {
		switch child := childNamed(node, word); {
		case open != nil:
			open = nil
		case strings.HasPrefix(word, "-"):
			if open = flagNamed(node, word); open != nil && open.IsBool() {
				open = nil
			}
		case child != nil:
			node = child
		default:
			arguments++
		}
	}
	if name, value, given := strings.Cut(last, "="); given && strings.HasPrefix(name, "-") {
		if flag := flagNamed(node, name); flag != nil {
			return withPrefix(name+"=", startingWith(value, flag.EnumSlice()))
		}
		return nil
	}
	switch {
	case open != nil:
		return startingWith(last, open.EnumSlice())
	case strings.HasPrefix(last, "-"):
		return startingWith(last, flagNames(node))
	case arguments < len(node.Positional):
		return startingWith(last, node.Positional[arguments].EnumSlice())
	default:
		return startingWith(last, childNames(node))
	}
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func childNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

func flagNamed(node *kong.Node, word string) *kong.Flag {
	for _, flags := range node.AllFlags(true) {
		for _, flag := range flags {
			if word == "--"+flag.Name {
				return flag
			}
		}
	}
	return nil
}

func flagNames(node *kong.Node) (names []string) {
	for _, flags := range node.AllFlags(true) {
		for _, flag := range flags {
			names = append(names, "--"+flag.Name)
		}
	}
	return names
}

func startingWith(prefix string, words []string) (found []string) {
	for _, word := range words {
		if word != "" && strings.HasPrefix(word, prefix) {
			found = append(found, word)
		}
	}
	return found
}

func withPrefix(prefix string, words []string) (all []string) {
	for _, word := range words {
		all = append(all, prefix+word)
	}
	return all
}
