package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/sse"
)

const limit = 1 << 16

type event struct{ name, data string }

// all reads a stream to its end.
func all(src io.Reader, limit int) ([]event, error) {
	r := sse.NewReader(src, limit)
	var events []event
	for {
		ev, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{ev.Name, string(ev.Data)})
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, stream string
		events       []event
		err          error
	}{
		{name: "nothing", stream: "", err: io.EOF},
		{name: "one line", stream: "data: a\n\n", events: []event{{"", "a"}}, err: io.EOF},
		{name: "carriage returns", stream: "data: a\r\rdata: b\r\r", events: []event{{"", "a"}, {"", "b"}}, err: io.EOF},
		{name: "both", stream: "data: a\r\n\r\ndata: b\r\n\r\n", events: []event{{"", "a"}, {"", "b"}}, err: io.EOF},
		{name: "mixed ends", stream: "data: a\r\ndata: b\n\rdata: c\r\n\n", events: []event{{"", "a\nb"}, {"", "c"}},
			err: io.EOF},
		{name: "several data lines", stream: "data: a\ndata\ndata:b\n\n", events: []event{{"", "a\n\nb"}}, err: io.EOF},
		{name: "one blank is dropped", stream: "data:  a\n\n", events: []event{{"", " a"}}, err: io.EOF},
		{name: "empty data", stream: "data:\n\n", events: []event{{"", ""}}, err: io.EOF},
		{name: "names", stream: "event: x\ndata: a\n\ndata: b\n\nevent:y\ndata:c\n\n",
			events: []event{{"x", "a"}, {"", "b"}, {"y", "c"}}, err: io.EOF},
		{name: "a name without data is no event", stream: "event: x\n\ndata: a\n\n", events: []event{{"", "a"}}, err: io.EOF},
		{name: "comments and other fields", stream: ": hi\n\nid: 7\nretry: 5\nfoo: x\nfoo\n: ho\ndata: a\n:\n\n",
			events: []event{{"", "a"}}, err: io.EOF},
		{name: "byte order mark", stream: "\xEF\xBB\xBFdata: a\n\n", events: []event{{"", "a"}}, err: io.EOF},
		{name: "a second mark is text", stream: "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n", events: []event{{"", "b"}},
			err: io.EOF},
		{name: "colon in the value", stream: "data: a: b\n\n", events: []event{{"", "a: b"}}, err: io.EOF},
		{name: "cut in a line", stream: "data: a\n\ndata: b", events: []event{{"", "a"}}, err: io.ErrUnexpectedEOF},
		{name: "cut before the blank line", stream: "data: a\n\ndata: b\n", events: []event{{"", "a"}},
			err: io.ErrUnexpectedEOF},
		{name: "cut after a name", stream: "event: b\n", err: io.ErrUnexpectedEOF},
		{name: "ends after a comment", stream: "data: a\n\n: bye\n", events: []event{{"", "a"}}, err: io.EOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for name, src := range map[string]io.Reader{
				"at once":      strings.NewReader(test.stream),
				"bytewise":     iotest.OneByteReader(strings.NewReader(test.stream)),
				"end with eof": iotest.DataErrReader(strings.NewReader(test.stream)),
			} {
				events, err := all(src, limit)
				require.Equal(t, test.events, events, name)
				require.ErrorIs(t, err, test.err, name)
			}
		})
	}
}

func TestReaderBoundsWhatItKeeps(t *testing.T) {
	t.Parallel()
	endless := func(s string) io.Reader { return &repeater{text: s} }
	for name, src := range map[string]io.Reader{
		"a line without end":    endless("x"),
		"a comment without end": endless(":"),
		"data without end":      endless("data: xxxxxxxx\n"),
	} {
		_, err := all(src, 1000)
		require.ErrorIs(t, err, sse.ErrTooLarge, name)
	}
	events, err := all(strings.NewReader("data: "+strings.Repeat("x", 900)+"\n\n"), 1000)
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, events, 1)
}

type repeater struct{ text string }

func (r *repeater) Read(p []byte) (int, error) {
	n := 0
	for n+len(r.text) <= len(p) {
		n += copy(p[n:], r.text)
	}
	return n, nil
}

func TestReaderReturnsAnEventBeforeReadingOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("a read too many")
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n"} {
		// A source that hands over one whole event and fails at the next read.
		r := sse.NewReader(io.MultiReader(strings.NewReader("data: a"+end), iotest.ErrReader(broken)), limit)
		ev, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, "a", string(ev.Data))
		_, err = r.Next()
		require.ErrorIs(t, err, broken)
	}
}

func TestReaderGivesUpOnASourceThatReadsNothing(t *testing.T) {
	t.Parallel()
	_, err := all(readNothing{}, limit)
	require.ErrorIs(t, err, io.ErrNoProgress)
}

type readNothing struct{}

func (readNothing) Read([]byte) (int, error) { return 0, nil }

// chunked hands out a text in pieces of the drawn sizes.
type chunked struct {
	text  []byte
	sizes []int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := len(c.text)
	if len(c.sizes) > 0 {
		n, c.sizes = min(n, c.sizes[0]), c.sizes[1:]
	}
	n = copy(p, c.text[:n])
	c.text = c.text[n:]
	return n, nil
}

func TestWhatIsAppendedReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want []event
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			ev := event{
				name: rapid.SampledFrom([]string{"", "message_start", "ping"}).Draw(t, "name"),
				data: rapid.StringMatching("[a: \u00e9\u4e2d\n]{0,20}").Draw(t, "data"),
			}
			if rapid.Bool().Draw(t, "comment") {
				stream = sse.AppendComment(stream, "keepalive")
			}
			stream = sse.Append(stream, ev.name, []byte(ev.data))
			want = append(want, ev)
		}
		if rapid.Bool().Draw(t, "crlf") {
			stream = bytes.ReplaceAll(stream, []byte("\n"), []byte("\r\n"))
		}
		sizes := rapid.SliceOf(rapid.IntRange(1, 9)).Draw(t, "sizes")
		events, err := all(&chunked{text: stream, sizes: sizes}, limit)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, events)
	})
}

func TestAppendWritesNoCarriageReturn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "event: x\ndata: a\ndata: b\ndata: c\ndata: \n\n",
		string(sse.Append(nil, "x", []byte("a\rb\r\nc\n"))))
}

// ahead is all for a caller that asks whether an event is there, and reads while none is.
func ahead(src io.Reader, limit int) ([]event, error) {
	r := sse.NewReader(src, limit)
	var events []event
	for {
		for !r.Ready() {
			if r.Fill() != nil {
				break // Next says it
			}
		}
		ev, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{ev.Name, string(ev.Data)})
	}
}

// FuzzReader checks that the chunks in which a stream arrives change nothing, nor that it is read ahead, and that
// whatever is read can be written and read again.
func FuzzReader(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: x\ndata: y\r\rdata: z\n\n: c\n\ndata"), uint8(3))
	f.Add([]byte("\xEF\xBB\xBFdata: {\"a\":1}\n\ndata: [DONE]\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole, wholeErr := all(bytes.NewReader(stream), 512)
		sizes := bytes.Repeat([]byte{size%7 + 1}, len(stream))
		pieces := make([]int, len(sizes))
		for i, s := range sizes {
			pieces[i] = int(s)
		}
		chunks, chunksErr := all(&chunked{text: stream, sizes: pieces}, 512)
		require.Equal(t, errors.Is(wholeErr, sse.ErrTooLarge), errors.Is(chunksErr, sse.ErrTooLarge))
		require.Equal(t, whole, chunks)
		early, earlyErr := ahead(&chunked{text: stream, sizes: pieces}, 512)
		require.Equal(t, whole, early)
		require.Equal(t, chunksErr, earlyErr)
		var again []byte
		for _, ev := range whole {
			again = sse.Append(again, ev.name, []byte(ev.data))
		}
		reread, err := all(bytes.NewReader(again), 1<<20)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, whole, reread)
	})
}

func TestReaderLimits(t *testing.T) {
	t.Parallel()
	const limit = 20
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name, stream string
		data         string // of the one event, "" where the stream is refused
	}{
		{"a line of the limit", "data:" + x(15) + "\n\n", x(15)},
		{"a line beyond it", "data:" + x(16) + "\n\n", ""},
		{"a comment of the limit", ":" + x(19) + "\ndata:a\n\n", "a"},
		{"a comment beyond it", ":" + x(20) + "\ndata:a\n\n", ""},
		{"lines that come to the limit", "data:" + x(10) + "\ndata:" + x(10) + "\n\n", x(10) + "\n" + x(10)},
		{"lines that come to more", "data:" + x(10) + "\ndata:" + x(10) + "\ndata:x\n\n", ""},
		{"the next event begins anew", "data:" + x(15) + "\n\ndata:" + x(15) + "\n\n", x(15)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, src := range map[string]io.Reader{
				"at once": strings.NewReader(tt.stream), "bytewise": iotest.OneByteReader(strings.NewReader(tt.stream)),
			} {
				events, err := all(src, limit)
				if tt.data == "" {
					require.ErrorIs(t, err, sse.ErrTooLarge, name)
					require.ErrorContains(t, err, "(20 bytes)")
					require.Empty(t, events)
					continue
				}
				require.ErrorIs(t, err, io.EOF, name)
				for _, ev := range events {
					require.Equal(t, event{"", tt.data}, ev, name)
				}
				require.Len(t, events, strings.Count(tt.stream, "\n\n"), name)
			}
		})
	}
}

// A reader asks for as much as it has room for: neither byte by byte nor for more and more of a stream of short
// events. It waits with little room for a stream that sends little at a time.
func TestReaderKeepsItsBufferSmall(t *testing.T) {
	t.Parallel()
	const event = "data: a few words of text\n\n"
	src := &asked{repeater: repeater{text: event}}
	r := sse.NewReader(src, limit)
	next := func() {
		t.Helper()
		ev, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, "a few words of text", string(ev.Data))
	}
	for range 10_000 {
		next()
	}
	require.LessOrEqual(t, src.most, 16<<10, "bytes asked for at once")
	require.GreaterOrEqual(t, src.most, 4<<10)
	require.LessOrEqual(t, src.reads, 10_000/50)
	for src.one = true; !src.waits(); {
		next()
	}
	reads := src.reads
	for range 100 {
		next()
	}
	require.Equal(t, reads+100, src.reads)
	require.LessOrEqual(t, src.last, 1<<10, "bytes for which it waits")
	src.one = false
	for range 1000 {
		next()
	}
	require.GreaterOrEqual(t, src.last, 4<<10, "it is busy again")
}

// asked counts what it is asked for.
type asked struct {
	repeater

	one               bool // event at a time
	reads, most, last int
}

func (a *asked) Read(p []byte) (int, error) {
	a.reads++
	a.most, a.last = max(a.most, len(p)), len(p)
	if a.one {
		return copy(p, a.text), nil
	}
	return a.repeater.Read(p)
}

// waits reports whether little is asked for at a time.
func (a *asked) waits() bool { return a.last <= 1<<10 }

func TestAppendCutsAtEveryEndOfALine(t *testing.T) {
	t.Parallel()
	for data, lines := range map[string]string{
		"a\r\nb": "data: a\ndata: b", "a\rb": "data: a\ndata: b", "a\nb": "data: a\ndata: b", "a\r": "data: a\ndata: ",
		"a\r\n": "data: a\ndata: ", "a\r\r\nb": "data: a\ndata: \ndata: b", "a\n\rb": "data: a\ndata: \ndata: b",
		"\r\n": "data: \ndata: ",
	} {
		require.Equal(t, lines+"\n\n", string(sse.Append(nil, "", []byte(data))), "%q", data)
	}
}

func TestLinesThatAreNoFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []sse.Event
	}{
		"an error of llama.cpp": {"data: a\n\nerror: {\"code\":500}\n\ndata: [DONE]\n\n", []sse.Event{
			{Data: []byte("a")}, {Name: "error", Data: []byte(` {"code":500}`)}, {Data: []byte("[DONE]")}}},
		"an object on a line of its own": {"data: a\n\n{\"error\":1}\ndata: b\n\n", []sse.Event{
			{Data: []byte("a")}, {Data: []byte(`{"error":1}`), Bare: true}, {Data: []byte("b")}}},
		"within an event": {"data: a\nerror: b\n\n", []sse.Event{
			{Data: []byte("a")}, {Name: "error", Data: []byte(" b")}}},
		"behind a name": {"event: error\n{\"message\":1}\n\n", []sse.Event{
			{Name: "error", Data: []byte(`{"message":1}`), Bare: true}}},
		"other lines are none": {"[1]\nerror\nhello: x\n\ndata: a\n\n", []sse.Event{{Data: []byte("a")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sse.NewReader(strings.NewReader(c.stream), 1<<20)
			for i, want := range c.want {
				ready := i > 0 && r.Ready()
				got, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, i > 0, ready, "all of it has been read ahead")
				require.Equal(t, want.Name, got.Name)
				require.Equal(t, string(want.Data), string(got.Data))
				require.Equal(t, want.Bare, got.Bare)
			}
			_, err := r.Next()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}
