package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
)

// A launch that is interrupted still judges what it has sent; nobody wants to know.
const stopPatience = 5 * time.Second

// bench is where experiments are made: in the folder of the module, with the programs as they are now.
type bench struct {
	root    string
	scratch string            // a folder for what is not kept
	tests   map[string]string // compiled tests by package
	log     io.Writer         // how it goes
}

// prepare builds the programs. What is measured is what ships, so the caller's settings of the runtime do not count.
func prepare(ctx context.Context) (*bench, error) {
	for _, name := range []string{"GOGC", "GOMAXPROCS"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "make", "--no-print-directory", "build")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("make build, in the folder of the module: %w", err)
	}
	scratch, err := os.MkdirTemp("", "holdfast-performance-")
	if err != nil {
		return nil, err
	}
	return &bench{root: root, scratch: scratch, tests: map[string]string{}, log: os.Stderr}, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.scratch) }

// binary is the path of a program that was built.
func (b *bench) binary(name string) string { return filepath.Join(b.root, "bin", name) }

// play runs a command to its end and returns what it wrote. The run says how disturbed it was, and how it failed if it
// did. An error means that it did not get that far.
func (b *bench) play(ctx context.Context, cmd *exec.Cmd) (output string, r run, err error) {
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	watch := machine.NewWatch(nil)
	before := watch.Read()
	child, err := program.Start(cmd)
	if err != nil {
		return "", run{}, err
	}
	select {
	case <-child.Ended():
	case <-ctx.Done():
		return "", run{}, errors.Join(ctx.Err(), child.Stop(stopPatience))
	}
	if steal := watch.Read().Since(before).Steal; steal != nil {
		percent := 100 * *steal
		r.Steal = &percent
	}
	if child.Err() != nil {
		r.Failure = lastLine(errOut.String()) + "; " + child.Err().Error()
		fmt.Fprintf(b.log, "%s\n%s", &out, &errOut)
	}
	return out.String(), r, nil
}

// brief is what of an error is published: its first line, without folders of this machine.
func (b *bench) brief(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	for _, folder := range []string{b.root, b.scratch} {
		if folder != "" {
			line = strings.ReplaceAll(line, folder+"/", "")
		}
	}
	return line
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
