package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// chunked is a body in chunks (RFC 9112 section 7.1). net/http's reader of them waits for the rest of a chunk of which
// it has some, and nobody can say when; this one returns what has come.
type chunked struct {
	r     *bufio.Reader
	left  int64 // bytes of the chunk
	begun bool  // a chunk has begun: its end comes before the next
	waste int   // bytes of framing beyond what chunks of their sizes need
	err   error
}

var (
	errChunk   = errors.New("the body is not cut into chunks as HTTP wants it")
	crlf       = []byte("\r\n")
	maxTrailer = 8 << 10 // bytes
)

const (
	// A chunk's head may be so long, and twice the chunk's size more; what all heads have beyond that is at most
	// maxWaste. Otherwise a peer could keep us reading extensions for a byte of body each (net/http has the same
	// bounds).
	fairHead = 16
	maxWaste = 16 << 10
)

func (c *chunked) Read(p []byte) (int, error) {
	if len(p) == 0 || c.err != nil {
		return 0, c.err
	}
	if c.left == 0 {
		if c.err = c.next(); c.err != nil {
			return 0, c.err
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.err = cut(err)
	return n, c.err
}

// cut is the error of a body that ended too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// next begins the next chunk. Behind the last one it reads the trailer, whose fields nobody wants, and returns io.EOF.
func (c *chunked) next() error {
	if c.begun {
		line, err := c.line()
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return errChunk
		}
	}
	c.begun = true
	line, err := c.line()
	if err != nil {
		return err
	}
	if c.left, err = size(line); err != nil {
		return err
	}
	c.waste = max(0, c.waste+len(line)-fairHead-2*int(min(c.left, maxWaste)))
	if c.waste > maxWaste {
		return errChunk
	}
	if c.left > 0 {
		return nil
	}
	for read := 0; ; {
		line, err := c.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
		if read += len(line); read > maxTrailer {
			return errChunk
		}
	}
}

// line reads a line of the framing, without its end.
func (c *chunked) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errChunk
	}
	if err != nil {
		return nil, cut(err)
	}
	line, whole := bytes.CutSuffix(line, crlf)
	if !whole {
		return nil, errChunk
	}
	return line, nil
}

// size reads the head of a chunk, whose extensions say nothing to us.
func size(line []byte) (int64, error) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	n, err := strconv.ParseUint(string(digits), 16, 63) // which takes no sign
	if err != nil {
		return 0, errChunk
	}
	return int64(n), nil
}

// ready reports whether b, which is what comes next, is enough for a Read.
func (c *chunked) ready(b []byte) bool {
	if c.err != nil || c.left > 0 {
		return c.err != nil || len(b) > 0
	}
	if c.begun {
		if len(b) < len(crlf) {
			return false
		}
		b = b[len(crlf):]
	}
	line, rest, whole := bytes.Cut(b, []byte("\n"))
	if !whole {
		return false
	}
	if n, err := size(bytes.TrimSuffix(line, []byte("\r"))); err != nil || n > 0 {
		return err != nil || len(rest) > 0
	}
	return bytes.HasPrefix(rest, crlf) || bytes.Contains(rest, []byte("\r\n\r\n"))
}
