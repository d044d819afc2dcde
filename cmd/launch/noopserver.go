package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/noop"
)

// A server of a few kilobytes would collect its garbage all the time.
const gcPercent = 400

// noopCommand is the server that decides nothing. It ends with the process that started it, whose end of its standard
// input is closed then.
type noopCommand struct {
	Holds int64 `name:"holds" placeholder:"N" help:"How many calls get a hold; those after them are refused."`
}

// Run serves on a free port, which it prints.
func (c *noopCommand) Run(ctx context.Context, out, _ io.Writer) error {
	debug.SetGCPercent(gcPercent)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
		cancel()
	}()
	fmt.Fprintln(out, l.Addr())
	return noop.Serve(ctx, l, c.Holds)
}

// noopProcess is the server as a process of its own: what it costs is told apart from what we cost.
type noopProcess struct {
	address string
	command *exec.Cmd
	input   io.Closer
}

func startNoop(holds int64) (*noopProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// It ends with its standard input, however we end.
	p := &noopProcess{command: exec.CommandContext(context.Background(), self, "noop-server", fmt.Sprintf("--holds=%d", holds))}
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("no-op server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("no-op server: %w", err), p.stop())
	}
	p.address = strings.TrimSpace(line)
	return p, nil
}

const stopPatience = 5 * time.Second

func (p *noopProcess) stop() error {
	_ = p.input.Close() // it ends by this
	defer time.AfterFunc(stopPatience, func() { _ = p.command.Process.Kill() }).Stop()
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("no-op server: %w", err)
	}
	return nil
}
