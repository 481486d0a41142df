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

func newDecoder(send func(llm.Event) error) *decoder {
	d := &decoder{out: reply.New(reply.Main{Input: "prompt_eval_count", Output: "eval_count"}, send)}
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
		d.out.Used(usage(root))
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
	if err := call.Piece(function.Get("arguments")); err != nil {
		return err
	}
	return call.End()
}

// usage reads the counts of the last line. The prompt's has been the whole prompt's since July 2024, what was in the
// cache included (pull request 5371), but for some versions of May 2026, whose smaller count is taken as it is;
// before, it was absent where everything was in the cache. What was in the cache has a count of its own since
// September 2026.
func usage(root jsonview.View) *llm.Usage {
	var counts reply.Counts
	prompt := counts.Read("prompt_eval_count", root.Get("prompt_eval_count"))
	cached := counts.Read("prompt_eval_cached_count", root.Get("prompt_eval_cached_count"))
	output := counts.Read("eval_count", root.Get("eval_count"))
	return counts.Usage(reply.Classes(prompt, cached, nil, output, nil))
}

// lines reads the lines of a stream. Half a line at its end is none.
func lines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	const first = 4 << 10
	s.Buffer(make([]byte, 0, first), maxLine)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		advance, token, err := bufio.ScanLines(data, atEOF)
		if atEOF && advance == len(data) && advance > 0 && data[advance-1] != '\n' && !json.Valid(token) {
			return advance, nil, nil
		}
		return advance, token, err
	})
	return s
}

// tooLong is the error for a line that has no end.
func tooLong(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return llm.Errorf(llm.ErrProtocol, "the upstream sent a line of more than %d bytes", maxLine)
	}
	return err
}
