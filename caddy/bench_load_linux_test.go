package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchClient sends one prepared request over one connection, again and again. It is leaner than an
// http.Client, for it shares the cores with what is measured.
type benchClient struct {
	conn    net.Conn
	replies *bufio.Reader
	request []byte
	end     string // of a whole reply
	refused bool   // it is a refusal
	body    bytes.Buffer
	buffer  [4 << 10]byte

	took, first []time.Duration // of each request: until the reply's end, and until its body began
}

func dialBench(b *testing.B, url string, kind benchKind, key string) *benchClient {
	b.Helper()
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", host)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n",
		cmp.Or(kind.path, "/v1/chat/completions"), host)
	if key != "" {
		request += "Authorization: Bearer " + key + "\r\n"
	}
	request += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(kind.body), kind.body)
	return &benchClient{conn: conn, replies: bufio.NewReader(conn), request: []byte(request), end: kind.end,
		refused: kind.refused}
}

// once sends the request and reads the whole reply.
func (c *benchClient) once() error {
	start := time.Now()
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.replies, nil)
	if err != nil {
		return err
	}
	c.body.Reset()
	n, err := resp.Body.Read(c.buffer[:])
	first := time.Since(start)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	c.body.Write(c.buffer[:n])
	if _, err := io.Copy(&c.body, resp.Body); err != nil {
		return err
	}
	want := 2
	if c.refused {
		want = 4
	}
	if resp.StatusCode/100 != want || !bytes.HasSuffix(c.body.Bytes(), []byte(c.end)) {
		return fmt.Errorf("got %s: %q", resp.Status, c.body.Bytes())
	}
	c.took, c.first = append(c.took, time.Since(start)), append(c.first, first)
	return nil
}

// begin sends the request and reads until the reply's first delta.
func (c *benchClient) begin() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.replies, nil)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), benchDelta) {
			return nil
		}
	}
	return fmt.Errorf("got %s, and no delta: %w", resp.Status, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// drive sends n requests by all the clients together.
func drive(clients []*benchClient, n int) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, len(clients))
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := c.once(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs // nil when there is none
}
