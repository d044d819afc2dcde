// Command cut loses an answer: `cut HOST:PORT` prints an address, passes one connection on from there to HOST:PORT, and cuts it when the
// answer to a call comes. The server has decided then, and the caller does not know.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// patience is how long it waits for somebody to connect.
const patience = 10 * time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cut HOST:PORT")
		os.Exit(2)
	}
	if err := cut(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cut:", err)
		os.Exit(1)
	}
}

func cut(ctx context.Context, address string, out io.Writer) error {
	client, err := accept(out)
	if err != nil {
		return err
	}
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer server.Close()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = io.Copy(server, client)
	}()
	if err := passUntilAnswer(client, server); err != nil {
		return err
	}
	// The caller closes its side then. Closing both would reset the connection if the caller happens to send something, which it would
	// tell in other words.
	if err := client.CloseWrite(); err != nil {
		return err
	}
	<-asked
	return nil
}

// accept prints an address, and waits for one connection to it.
func accept(out io.Writer) (*net.TCPConn, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if err := listener.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	fmt.Fprintln(out, listener.Addr())
	return listener.AcceptTCP()
}

// passUntilAnswer passes on whole frames of HTTP/2 that come before the one that an answer begins with.
func passUntilAnswer(client io.Writer, server io.Reader) error {
	const headerSize, typeAt = 9, 3
	frames := bufio.NewReader(server)
	for {
		header, err := frames.Peek(headerSize)
		if errors.Is(err, io.EOF) {
			return errors.New("no answer came")
		}
		if err != nil {
			return err
		}
		if http2.FrameType(header[typeAt]) == http2.FrameHeaders {
			return nil
		}
		size := headerSize + (int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2]))
		if _, err := io.CopyN(client, frames, size); err != nil {
			return err
		}
	}
}
