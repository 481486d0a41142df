package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Outcome is what a client reads from a whole reply, whichever way it came.
type Outcome struct {
	Model, Text, Finish string
	Calls               []ToolCall
	Usage               map[string]any
	StopSequence        any // messages
}

// Outcome reads a JSON reply.
func (s Shape) Outcome(v map[string]any) Outcome {
	usage, _ := v["usage"].(map[string]any)
	return Outcome{Model: Str(v["model"]), Text: s.Text(v), Finish: s.Finish(v), Calls: s.Calls(v), Usage: usage,
		StopSequence: v["stop_sequence"]}
}

// Billed is the charge in microcents that the reply reports.
func (o Outcome) Billed(t Reporter) int64 {
	t.Helper()
	n, ok := Integer(o.Usage["billed_microcents"])
	requireTrue(t, ok, "usage.billed_microcents is %s instead of an integer", Brief(o.Usage["billed_microcents"]))
	return n
}

// OutcomeOf reads a reply that must be a success, JSON or a stream that is complete.
func (s Shape) OutcomeOf(t Reporter, status int, header http.Header, raw []byte) Outcome {
	t.Helper()
	requireEqual(t, http.StatusOK, status, "the status of "+Brief(string(raw)))
	if strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		v := s.Judge(t, ReadFrames(t, raw))
		requireTrue(t, v.Complete, "the stream failed: %s", Brief(v.Error))
		return v.Outcome
	}
	requireEqual(t, "application/json", header.Get("Content-Type"), "the Content-Type")
	v, err := Decode(raw)
	requireTrue(t, err == nil, "the body is no JSON object (%v): %s", err, Brief(string(raw)))
	return s.Outcome(v)
}

// Verdict is what a stream was.
type Verdict struct {
	Outcome

	Pieces     []string // the pieces of text, as they came
	KeepAlives int
	Started    bool     // the first events came
	Complete   bool     // the end marker came
	Error      *Failure // the error frame
}

// judge is a stream of which the first frames are read.
type judge struct {
	Reporter
	shape Shape
	Verdict

	rest   []Frame // that are not read yet
	chunks int     // of chat
	open   map[int]string
	texts  map[int]string // by block or item
	next   int            // block or sequence number
}

// Judge reads a whole stream, and fails where it breaks a rule that holds for every stream of its shape: the order of
// events, their form, what may follow what, and that there is exactly one end, with nothing after it.
func (s Shape) Judge(t Reporter, frames []Frame) Verdict {
	t.Helper()
	j := &judge{Reporter: t, shape: s, rest: frames, open: make(map[int]string), texts: make(map[int]string)}
	read := map[string]func(){"chat": j.readChat, "responses": j.readResponses, "messages": j.readMessages}[s.Name]
	for len(j.rest) > 0 {
		j.require(!j.Complete && j.Error == nil, "something follows the end: %s", j.rest[0])
		if j.rest[0].IsKeepAlive() {
			j.readKeepAlive()
		} else {
			read()
		}
	}
	j.require(j.Complete || j.Error != nil, "the stream has neither an end marker nor an error frame")
	return j.Verdict
}

func (j *judge) require(ok bool, format string, args ...any) {
	j.Helper()
	requireTrue(j, ok, format, args...)
}

func (j *judge) equal(want, got any, what string) {
	j.Helper()
	requireEqual(j, want, got, what)
}

// take is the next frame.
func (j *judge) take() Frame {
	f := j.rest[0]
	j.rest = j.rest[1:]
	return f
}

// readKeepAlive takes a frame that only keeps the connection open (SSE-26, SSE-27).
func (j *judge) readKeepAlive() {
	want := ": keepalive"
	if j.shape.Name == "messages" {
		want = "event: ping\ndata: {\"type\":\"ping\"}"
	}
	j.equal(want, j.take().String(), "a keep-alive")
	j.KeepAlives++
}

func (j *judge) addText(piece string) {
	j.Pieces = append(j.Pieces, piece)
	j.Text += piece
}

// readChat takes one chunk (SSE-03 to SSE-07, SSE-31).
func (j *judge) readChat() {
	f := j.take()
	j.equal("", f.Event, "the event line of a chunk")
	if f.Data == "[DONE]" {
		j.require(j.Finish != "", "an end marker without a finish_reason")
		j.Complete = true
		return
	}
	if failed, ok := f.At("error").(map[string]any); ok {
		j.require(j.Finish == "", "an error after the finish_reason")
		j.equal(map[string]any{"code": failed["code"], "type": failed["code"], "message": failed["message"]}, failed,
			"the error")
		j.requireUnsettled(f.At("usage"))
		j.Error = &Failure{Str(failed["code"]), Str(failed["message"])}
		return
	}
	j.equal("chat.completion.chunk", f.At("object"), "the object of a chunk")
	choices, ok := f.At("choices").([]any)
	j.require(ok, "a chunk has no choices: %s", f)
	if len(choices) == 0 {
		j.require(j.Finish != "", "usage before the finish_reason")
		j.Usage, ok = f.At("usage").(map[string]any)
		j.require(ok, "a chunk without choices has no usage: %s", f)
		return
	}
	j.equal(1, len(choices), "the number of choices")
	j.require(j.Finish == "", "a delta after the finish_reason")
	j.require(f.At("usage") == nil, "a chunk with choices has a usage")
	delta, _ := f.At("choices", 0, "delta").(map[string]any)
	if j.chunks == 0 {
		j.equal(map[string]any{"role": "assistant", "content": ""}, delta, "the first delta")
		j.Started = true
	} else {
		j.require(delta["role"] == nil, "a later delta has a role")
		if piece, ok := delta["content"].(string); ok {
			j.addText(piece)
		}
	}
	j.chunks++
	j.Model, j.Finish = Str(f.At("model")), Str(f.At("choices", 0, "finish_reason"))
	for _, piece := range List(delta["tool_calls"]) {
		n := j.integer(At(piece, "index"))
		if n == len(j.Calls) {
			j.Calls = append(j.Calls, ToolCall{ID: Str(At(piece, "id")), Name: Str(At(piece, "function", "name"))})
		}
		j.require(n < len(j.Calls), "a piece of call %d comes before the call", n)
		j.Calls[n].Arguments += Str(At(piece, "function", "arguments"))
	}
}

// readResponses takes one event; the error event and response.failed are one, and so are the terminal event and the
// end marker (SSE-08 to SSE-15, SSE-32, SSE-33).
func (j *judge) readResponses() {
	f := j.take()
	j.require(f.Data != "[DONE]", "an end marker without a terminal event")
	j.requireNumbered(f)
	at := 0
	if f.At("output_index") != nil {
		at = j.integer(f.At("output_index"))
	}
	switch f.Event {
	case "response.created":
		j.equal(1, j.next, "the place of response.created")
		j.equal("in_progress", f.At("response", "status"), "the status of response.created")
	case "response.in_progress":
		j.equal(2, j.next, "the place of response.in_progress")
		j.Started = true
	case "response.output_item.added":
		j.equal(len(j.texts), at, "the number of an item")
		j.equal("in_progress", f.At("item", "status"), "the status of a new item")
		j.texts[at], j.open[at] = "", Str(f.At("item", "type"))
		if j.open[at] == "function_call" {
			j.Calls = append(j.Calls, ToolCall{ID: Str(f.At("item", "call_id")), Name: Str(f.At("item", "name"))})
		}
	case "response.output_text.delta":
		j.equal("part", j.open[at], "what is open where text comes")
		j.addText(Str(f.At("delta")))
		j.texts[at] += Str(f.At("delta"))
	case "response.content_part.added":
		j.equal("message", j.open[at], "what is open where a part begins")
		j.open[at] = "part"
	case "response.output_text.done":
		j.equal(j.texts[at], f.At("text"), "the text that is done")
	case "response.content_part.done":
		j.equal(j.texts[at], f.At("part", "text"), "the text of the part")
		j.open[at] = "message"
	case "response.function_call_arguments.delta":
		j.equal("function_call", j.open[at], "what is open where arguments come")
		j.texts[at] += Str(f.At("delta"))
	case "response.function_call_arguments.done":
		j.equal(j.texts[at], f.At("arguments"), "the arguments that are done")
	case "response.output_item.done":
		j.equal(j.open[at], f.At("item", "type"), "the type of the item that is done")
		delete(j.open, at)
		for i := range j.Calls {
			if j.Calls[i].ID == f.At("item", "call_id") {
				j.Calls[i].Arguments = j.texts[at]
				j.equal(j.texts[at], f.At("item", "arguments"), "the arguments of the item")
			}
		}
	case "response.completed", "response.incomplete":
		j.endResponses(f)
	case "error":
		j.failResponses(f)
	default:
		j.Fatalf("an event that nobody expects: %s", f)
	}
}

// requireNumbered checks what every event of a responses stream has.
func (j *judge) requireNumbered(f Frame) {
	j.equal(f.Event, f.At("type"), "the type of an event")
	j.equal(json.Number(strconv.Itoa(j.next)), f.At("sequence_number"), "the sequence_number")
	j.next++
}

func (j *judge) endResponses(f Frame) {
	j.equal(0, len(j.open), "the number of items that are open at the end")
	j.require(len(j.rest) > 0 && j.rest[0].String() == "data: [DONE]", "no end marker follows the terminal event")
	j.take()
	response, ok := f.At("response").(map[string]any)
	j.require(ok, "the terminal event has no response: %s", f)
	j.equal("response."+Str(response["status"]), f.Event, "the terminal event")
	streamed := j.Outcome
	j.Outcome = j.shape.Outcome(response)
	j.equal(streamed.Text, j.Text, "the text of the response, beside its deltas")
	j.equal(streamed.Calls, j.Calls, "the calls of the response, beside its deltas")
	j.Complete = true
}

func (j *judge) failResponses(f Frame) {
	j.Error = &Failure{Str(f.At("code")), Str(f.At("message"))}
	j.requireUnsettled(f.At("usage"))
	param, ok := f.JSON["param"]
	j.require(ok && param == nil, "the param of the error event is %s", Brief(param))
	j.equal(1, len(j.rest), "the number of events after the error event")
	failed := j.take()
	j.equal("response.failed", failed.Event, "the event after the error event")
	j.requireNumbered(failed)
	j.equal("failed", failed.At("response", "status"), "the status of response.failed")
	j.equal(any(map[string]any{"code": j.Error.Code, "message": j.Error.Message}), failed.At("response", "error"),
		"response.error")
	j.requireUnsettled(failed.At("response", "usage"))
}

// requireUnsettled fails for a usage of an error frame that says more than that nothing is known (GAP-58, GAP-129).
func (j *judge) requireUnsettled(usage any) {
	members, ok := usage.(map[string]any)
	j.require(ok, "the usage of an error frame is %s", Brief(usage))
	j.equal(true, members["billing_pending"], "billing_pending of an error frame")
	_, ok = members["billed_microcents"]
	j.require(!ok, "an error frame says billed_microcents")
	for _, name := range j.shape.Tokens {
		j.equal(json.Number("0"), members[name], name+" of an error frame")
	}
}

// readMessages takes one event (SSE-16 to SSE-19, SSE-34).
func (j *judge) readMessages() {
	f := j.take()
	j.equal(f.Event, f.At("type"), "the type of an event")
	switch f.Event {
	case "message_start":
		j.require(!j.Started, "a second message_start")
		j.Started = true
		j.Model = Str(f.At("message", "model"))
	case "content_block_start":
		j.require(j.Started, "a block before message_start")
		j.equal(0, len(j.open), "the number of open blocks where one begins")
		j.equal(j.next, j.integer(f.At("index")), "the number of a block")
		j.open[j.next] = Str(f.At("content_block", "type"))
		if j.open[j.next] == "tool_use" {
			j.Calls = append(j.Calls, ToolCall{ID: Str(f.At("content_block", "id")), Name: Str(f.At("content_block", "name"))})
		}
	case "content_block_delta":
		j.readBlockDelta(f)
	case "content_block_stop":
		j.equal(j.next, j.integer(f.At("index")), "the block that ends")
		j.require(j.open[j.next] != "", "a block ends that is not open")
		delete(j.open, j.next)
		j.next++
	case "message_delta":
		j.equal(0, len(j.open), "the number of blocks that are open at the end")
		delta, _ := f.At("delta").(map[string]any)
		stop, ok := delta["stop_sequence"]
		j.require(ok, "message_delta has no stop_sequence")
		j.StopSequence, j.Finish = stop, Str(delta["stop_reason"])
		j.Usage, _ = f.At("usage").(map[string]any)
	case "message_stop":
		j.require(j.Finish != "", "an end marker without a stop_reason")
		j.Complete = true
	case "error":
		j.require(j.Finish == "", "an error after the stop_reason")
		failed, _ := f.At("error").(map[string]any)
		j.equal(map[string]any{"type": failed["type"], "message": failed["message"]}, failed, "the error")
		j.requireUnsettled(f.At("usage"))
		j.Error = &Failure{Str(failed["type"]), Str(failed["message"])}
	default:
		j.Fatalf("an event that nobody expects: %s", f)
	}
}

func (j *judge) readBlockDelta(f Frame) {
	j.equal(j.next, j.integer(f.At("index")), "the block of a delta")
	kind := map[string]string{"text": "text_delta", "tool_use": "input_json_delta"}[j.open[j.next]]
	j.equal(kind, f.At("delta", "type"), "the type of a delta")
	if kind == "text_delta" {
		j.addText(Str(f.At("delta", "text")))
		return
	}
	j.Calls[len(j.Calls)-1].Arguments += Str(f.At("delta", "partial_json"))
}

func (j *judge) integer(v any) int {
	n, ok := Integer(v)
	j.require(ok, "%s is no integer", Brief(v))
	return int(n)
}
