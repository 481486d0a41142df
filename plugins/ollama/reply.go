package ollama

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// maxLine bounds one line of a stream, and a reply in one piece, in bytes.
const maxLine = 32 << 20

// decoder turns the lines of a reply into events. A reply in one piece is one line.
type decoder struct {
	out  *reply.Stream
	done bool // the last line has come
}

// newDecoder makes a decoder. The counts stand in the last line; what was in the cache is a part of the prompt.
func newDecoder(send func(llm.Event) error) *decoder {
	d := &decoder{out: reply.New(reply.Counting{Input: "prompt_eval_count", Output: "eval_count"}, send)}
	d.out.ReturnReasoning() // docs.ollama.com, "Streaming", Handling streamed chunks
	return d
}

// line takes one line. Errors are *llm.Error, or what send returned.
func (d *decoder) line(data []byte) error {
	if d.done {
		return nil
	}
	return d.out.Take(data, d.chunk)
}

// end ends the reply, whose body has ended.
func (d *decoder) end() error {
	if !d.done {
		return d.out.Broken()
	}
	return d.out.End()
}

func (d *decoder) chunk(root jsonview.View) error {
	if root.Get("error").Set() {
		return reply.Failure(root)
	}
	if d.out.Model == "" {
		d.out.Model, _ = root.Get("model").Str()
	}
	message := root.Get("message")
	if err := d.out.Reasoning(message.Get("thinking")); err != nil {
		return err
	}
	if err := d.out.Text(message.Get("content")); err != nil {
		return err
	}
	for _, call := range message.Get("tool_calls").Elems() {
		if err := d.call(call); err != nil {
			return err
		}
	}
	if done, _ := root.Get("done").Bool(); done {
		d.done = true
		d.out.Used(root)
		word, _ := root.Get("done_reason").Str()
		finish := reply.Finish(word)
		if finish == llm.FinishStop && d.out.Calls() > 0 {
			finish = llm.FinishToolCalls // which this API does not tell apart
		}
		d.out.Finished(finish)
	}
	return nil
}

// call takes a call, which comes whole. Older versions give it no id.
func (d *decoder) call(v jsonview.View) error {
	id, _ := v.Get("id").Str()
	function := v.Get("function")
	name, _ := function.Get("name").Str()
	call, err := d.out.Call(id, name)
	if err != nil {
		return err
	}
	if err := call.Piece(reply.FindArguments(function, "arguments")); err != nil {
		return err
	}
	return call.End()
}

// lines reads the lines of a stream, each byte of it once.
type lines struct {
	r     *bufio.Reader
	whole []byte // of a line that is longer than the reader's buffer
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReader(r)} }

// next returns the next line, with its end, valid until the next call, or io.EOF. Half a line at the end of the stream
// is none, unless it is JSON.
func (l *lines) next() ([]byte, error) {
	for l.whole = l.whole[:0]; ; {
		piece, err := l.r.ReadSlice('\n')
		switch {
		case len(l.whole)+len(piece) > maxLine:
			return nil, llm.Errorf(llm.ErrProtocol, "the upstream sent a line of more than %d bytes", maxLine)
		case err == nil && len(l.whole) == 0:
			return piece, nil
		}
		l.whole = append(l.whole, piece...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && json.Valid(l.whole):
			return l.whole, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
