package wire

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// Answer tells how a call ended. It and its slices belong to the client: they are good until Handle returns.
type Answer struct {
	Tag  uint64        // as given to Send
	At   time.Duration // when it was read
	Code codes.Code
	Text string // grpc-message
	Body []byte // the message, if Code is OK
	// Details is the header grpc-status-details-bin as it came, in base64.
	Details string
	// Pushback is how long the server wants the caller to wait before it repeats the call; 0: it does not say.
	Pushback time.Duration
	// NotProcessed: the server has not seen the call, so that it can be sent again unchanged.
	NotProcessed bool

	conn *conn
}

// Address is that of the server whose connection it came by; empty: nothing was sent.
func (a *Answer) Address() string {
	if a.conn == nil {
		return ""
	}
	return a.conn.slot.address
}

// Send makes another call over the connection that the answer came by. It goes out when what has been read is
// handled.
func (a *Answer) Send(method int, tag uint64, message []byte) error {
	if a.conn.send(method, tag, message) {
		return nil
	}
	client := a.conn.client
	if err := client.Send(method, tag, message); err != nil {
		return err
	}
	client.Flush()
	return nil
}

// headers is what counts of the headers and trailers of an answer.
type headers struct {
	http, status, text, details, pushback string
}

// add is called for each field of a header block.
func (h *headers) add(name, value string) {
	switch name {
	case ":status":
		h.http = value
	case "grpc-status":
		h.status = value
	case "grpc-message":
		h.text = value
	case "grpc-status-details-bin":
		h.details = value
	case "grpc-retry-pushback-ms":
		h.pushback = value
	}
}

// answer says what the headers and trailers of a finished call mean.
func (h *headers) answer(a *Answer) {
	switch code, err := strconv.ParseUint(h.status, 10, 32); {
	case err == nil:
		a.Code, a.Text = codes.Code(code), decodePercent(h.text)
	case h.http != "" && h.http != "200":
		a.Code, a.Text = codes.Unavailable, "HTTP status "+h.http
	default:
		a.Code, a.Text = codes.Unknown, "an answer without grpc-status"
	}
	a.Details = h.details
	if millis, err := strconv.ParseInt(h.pushback, 10, 64); err == nil && millis > 0 {
		a.Pushback = time.Duration(millis) * time.Millisecond
	}
}

// decodePercent undoes the encoding of grpc-message. What is no encoding stays as it is.
func decodePercent(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
