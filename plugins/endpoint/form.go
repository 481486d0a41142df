package endpoint

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// form is what a reply is, by what its head says.
type form uint8

const (
	doubtful form = iota // its head does not say, or not reliably: its first byte does
	streamed             // an event stream
	whole                // one piece of JSON
	page                 // a web page, unless its first byte says otherwise
)

// formOf says what a 2xx reply is. Services name no type, or a wrong one: whole replies come as text/plain
// (EricLBuehler/mistral.rs issue 79), octet-stream, application/vnd.api+json or text/event-stream, and streams as
// application/json.
func formOf(header http.Header, asked form) form {
	switch said := typeOf(header); {
	case said == page, said == whole && asked == whole:
		return said
	case asked != whole && strings.HasPrefix(header.Get("Content-Type"), "text/event-stream"):
		return streamed
	}
	return doubtful
}

// typeOf is the form that goes with the type that a reply says it has; most others stream.
func typeOf(header http.Header) form {
	switch kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); { // none is ""
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		return whole
	case kind == "text/html":
		return page
	}
	return streamed
}

// mostBlank is how many bytes of white space may stand before a reply whose form is doubtful.
const mostBlank = 512

// detectForm reads a body up to its first byte that says something, and says by it what the body is: JSON begins with
// a brace or a bracket, which no field of an event stream does. The body that comes back has all of it.
func detectForm(body io.ReadCloser) (form, io.ReadCloser) {
	r := bufio.NewReaderSize(body, mostBlank)
	seen := struct {
		io.Reader
		io.Closer
	}{r, body}
	for n := 1; n <= mostBlank; n++ {
		b, err := r.Peek(n)
		if err != nil {
			break // whoever reads on hears of it
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // and a byte order mark
		case '{', '[':
			return whole, seen
		case '<':
			return page, seen
		case ':', 'd', 'e', 'i', 'r': // a comment, or the fields data, event, id and retry
			return streamed, seen
		default:
			return doubtful, seen
		}
	}
	return doubtful, seen
}

// webPage is the error for a 2xx that is for people.
func (e *Endpoint) webPage(status int) *llm.Error {
	failed := llm.Errorf(llm.ErrUpstream, "the upstream answered with a web page; check that %s is the address of an API",
		e.Settings.address())
	failed.Status, failed.Unreached = status, true
	return failed
}

// decompress takes off a compression that nobody asked for: a request says nothing of any, and some proxies compress
// all the same.
func decompress(resp *http.Response) *llm.Error {
	var open func(io.Reader) (io.ReadCloser, error)
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip": // RFC 9110 section 8.4.1.3
		open = func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }
	case "deflate":
		open = zlib.NewReader
	default:
		failed := llm.Errorf(llm.ErrUpstream, "the upstream compresses its replies, which nobody asked for, in a way that "+
			"is not known here; turn that off there or in the proxy before it")
		failed.Status = resp.StatusCode
		return failed
	}
	resp.Body = &compressed{ReadCloser: resp.Body, open: open}
	resp.Header.Del("Content-Encoding")
	return nil
}

// compressed is a body that is decompressed as it comes.
type compressed struct {
	io.ReadCloser
	open func(io.Reader) (io.ReadCloser, error)
	text io.Reader // nil until the first byte is wanted
}

func (c *compressed) Read(p []byte) (int, error) {
	if c.text == nil {
		text, err := c.open(c.ReadCloser)
		if err != nil {
			if errors.Is(err, io.EOF) { // an empty body
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		c.text = text
	}
	return c.text.Read(p)
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// isStream reports whether what was taken for JSON is an event stream: it begins as lines of one do.
func isStream(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	for _, begin := range []string{"data:", "event:", ":"} {
		if bytes.HasPrefix(body, []byte(begin)) {
			return true
		}
	}
	return false
}
