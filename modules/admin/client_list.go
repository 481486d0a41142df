package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/fareway/fareway/modules/internal/human"
)

// maxLine is far above any line of a list, in bytes.
const maxLine = 1 << 20

// Lines reads a list of the admin API line by line, as it comes. It returns nil when the list is whole; an error
// of each ends it and is returned. A line is each's until it returns.
func (c *Client) Lines(ctx context.Context, path string, query url.Values, each func(line []byte) error) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.lines(ctx, "GET", path, nil, each)
}

// PostLines is Lines of what is asked with a body.
func (c *Client) PostLines(ctx context.Context, path string, in any, each func(line []byte) error) error {
	return c.lines(ctx, "POST", path, in, each)
}

func (c *Client) lines(ctx context.Context, method, path string, in any, each func(line []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r := bufio.NewReaderSize(resp.Body, ListBuffer)
	for {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a list of the gateway at %s: it broke off: %w; it ends a list whose reader takes "+
				"nothing for %s", c.Address, err, human.Span(listTimeout))
		}
		if err := failedList(line); err != nil {
			return err
		}
		if err := each(line); err != nil {
			return err
		}
	}
}

// readLine returns the next line, which is the reader's until the next call. io.EOF comes only between lines.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := slices.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) < maxLine {
			line, err = r.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// failedList is the error that a list ends with when it failed on the way.
func failedList(line []byte) error {
	if !bytes.HasPrefix(line, []byte(`{"error":`)) {
		return nil
	}
	var e listError
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading the error of a list: %w", err)
	}
	return fmt.Errorf("the list broke off: %s", e.Error)
}

// ReadList is lines, decoded.
func ReadList[T any](ctx context.Context, c *Client, path string, query url.Values, each func(T) error) error {
	return c.Lines(ctx, path, query, func(line []byte) error {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("reading a line of a list: %w", err)
		}
		return each(v)
	})
}
