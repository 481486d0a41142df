package chat

import (
	"bytes"
	"strconv"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Decoder turns an upstream's chunks into events. Make one for each reply, hand it the data of each event
// of the stream, and Close it when the stream ends, however it ended. It does not send EventAccepted: that
// is due when the upstream's headers have come, before there is a chunk.
//
// Usage may come at the end in a chunk of its own, in every chunk, or never; what is known is sent once, before the
// reply's end or its error. Nothing is sent after EventFinish.
type Decoder struct {
	out *reply.Stream

	begun    bool // a choice has come
	finished bool // a finish_reason has come
	done     bool // the end marker has come
	whole    bool // the reply comes in one piece
	streams  bool // a delta has come
	apart    bool // calls have come in another choice than the first

	spoken reply.Spoken
	memory memory // of what is to come back, see client_states.go
	around around
	only   jsonview.View // the text of the chunk at hand, if its delta holds nothing else
}

// NewDecoder makes a Decoder that hands its events to send. An error of send ends the decoding; the method
// that met it returns it.
func NewDecoder(send func(llm.Event) error) *Decoder {
	d := &Decoder{out: reply.New(counting, send)}
	d.out.States(d.memory.state)
	return d
}

// counting is how OpenAI counts: what came from a cache is a part of the prompt, reasoning one of the completion.
var counting = reply.Counting{Input: "prompt_tokens", Output: "completion_tokens"}

// Allowance bounds what the total alone says of the output, see reply.Stream.
func (d *Decoder) Allowance(tokens int64) { d.out.Allowance(tokens) }

// Tools says what the request offered, see reply.Stream.
func (d *Decoder) Tools(names []string) { d.out.Tools(names) }

// ReturnReasoning is for an upstream that wants the reasoning of a reply with calls back, see Service.
func (d *Decoder) ReturnReasoning() { d.out.ReturnReasoning() }

// Data takes the data of one event of the stream: a chunk, or the end marker. After an error the stream is
// over. Errors are *llm.Error, or what send returned.
func (d *Decoder) Data(data []byte) error {
	if err := d.out.Err(); err != nil || d.done {
		return err
	}
	switch data = bytes.TrimSpace(data); string(data) {
	case "": // some upstreams keep their streams alive so
		return nil
	case "[DONE]":
		d.done = true
		return nil
	}
	if text := d.around.text(data); text.Set() {
		return d.out.Fail(d.out.TextOf(text, &d.spoken))
	}
	d.around.forget()
	root, err := reply.Parse(data)
	if err == nil {
		err = d.chunk(root)
	}
	return d.out.Fail(err)
}

// Worked reports whether the upstream has said what it has done so far, which counts where the reply breaks off.
func (d *Decoder) Worked() bool { return d.out.Worked() }

// Done reports whether the end marker has come, after which nothing of the stream counts.
func (d *Decoder) Done() bool { return d.done }

// ID is what the upstream calls the reply, "" while it has not said.
func (d *Decoder) ID() string { return d.out.ID }

// Close ends the reply: with EventFinish if the upstream had finished it, and otherwise with an *llm.Error
// of kind llm.ErrBroken. After an error of Data it returns that error.
func (d *Decoder) Close() error {
	if err := d.out.Err(); err != nil {
		return err
	}
	if !d.finished && !d.done {
		return d.out.Broken()
	}
	return d.out.End()
}

// chunk takes a chunk of a stream, or a whole reply, which differs in that a choice holds a message instead
// of a delta.
func (d *Decoder) chunk(root jsonview.View) error {
	var choices, object, failure jsonview.View
	for name, member := range root.Members() {
		switch name {
		case "choices":
			choices = member
		case "model":
			if d.out.Model == "" {
				d.out.Model, _ = member.Str()
			}
		case "id":
			if d.out.ID == "" {
				d.out.ID, _ = member.Str()
			}
		case "usage":
			d.out.Used(member)
		case "x_groq": // usage that nobody asked for
			d.out.Used(member.Get("usage"))
		case "timings": // of llama.cpp
			d.out.Timed(member)
		case "error":
			failure = member
		case "base_resp": // of MiniMax
			if code, ok := member.Get("status_code").Int(); ok && code != 0 {
				failure = member
			}
		case "object":
			object = member
		}
	}
	if kind, _ := object.Str(); kind == "error" || failure.Set() {
		return reply.Failure(root)
	}
	if !choices.Set() {
		return reply.Odd(root)
	}
	count := 0
	d.only = jsonview.View{}
	for _, choice := range choices.Elems() {
		count++
		if err := d.choice(choice); err != nil {
			return err
		}
	}
	if count == 1 && !d.whole {
		d.around.learn(root.Raw(), d.only)
	}
	return nil
}

func (d *Decoder) choice(v jsonview.View) error {
	var index, delta, message, finish, usage, failure jsonview.View
	for name, member := range v.Members() {
		switch name {
		case "index":
			index = member
		case "delta":
			delta = member
		case "message":
			message = member
		case "finish_reason":
			finish = member
		case "usage": // of Moonshot, in the last chunk
			usage = member
		case "error":
			failure = member
		}
	}
	d.out.Used(usage)
	if n, ok := index.Int(); ok && n != 0 { // only one was asked for
		return d.takeLaterChoice(delta, message)
	}
	if failure.Set() {
		return reply.Failure(failure)
	}
	d.begun = true
	if message.Set() && (d.whole || !delta.Set() && !d.streams) {
		delta, message = message, jsonview.View{}
	}
	d.streams = d.streams || delta.Set()
	if err := d.delta(delta); err != nil {
		return err
	}
	if err := d.snapshot(message); err != nil {
		return err
	}
	if reason, ok := finish.Str(); ok && reason != "" {
		d.finished = true
		d.out.Finished(reply.Finish(reason))
	}
	return nil
}

// takeLaterChoice takes a choice behind the first, which has the calls of some services' replies (HKUDS/nanobot
// #1481): where the first has some, it is another reply, which nobody asked for.
func (d *Decoder) takeLaterChoice(delta, message jsonview.View) error {
	if d.out.Calls() > 0 && !d.apart {
		return nil
	}
	for _, v := range []jsonview.View{delta.Get("tool_calls"), message.Get("tool_calls")} {
		d.apart = d.apart || v.Set()
		if err := d.calls(v); err != nil {
			return err
		}
	}
	return nil
}

// snapshot takes the whole message with which some services end a stream: of that counts what has not come before.
func (d *Decoder) snapshot(v jsonview.View) error {
	var content, calls jsonview.View
	for name, member := range v.Members() {
		switch name {
		case "content":
			content = member
		case "tool_calls":
			calls = member
		}
	}
	whole, isText := content.Str()
	switch {
	case !d.out.Visible():
		if err := d.content(content); err != nil {
			return err
		}
	case isText:
		rest, _ := d.spoken.Rest(whole)
		d.spoken.Add(rest)
		if err := d.out.Said(rest); err != nil {
			return err
		}
	}
	if d.out.Calls() > 0 {
		return nil
	}
	return d.calls(calls)
}

// delta takes a delta or a message. Reasoning comes before text: that is its order where both are whole.
func (d *Decoder) delta(v jsonview.View) error {
	var content, refusal, reasoning, toolCalls, functionCall jsonview.View
	var detailed string // what was thought, by the blocks that are to come back
	remembers := false
	for name, member := range v.Members() {
		switch name {
		case "content":
			content = member
		case "refusal":
			refusal = member
		case "reasoning_content":
			reasoning = member
		case "reasoning":
			if !reasoning.Set() { // some upstreams send both, with the same text
				reasoning = member
			}
		case "reasoning_text":
			reasoning = member
			d.memory.text(name, member)
		case "reasoning_opaque":
			remembers = true
			d.memory.text(name, member)
		case "reasoning_details", "thinking_blocks":
			remembers = true
			detailed += d.memory.list(name, member, d.whole)
		case "tool_calls":
			toolCalls = member
		case "function_call":
			functionCall = member
		}
	}
	if err := d.out.Reasoning(reasoning); err != nil {
		return err
	}
	if !reasoning.Set() { // most say it twice
		if err := d.out.Thought(detailed); err != nil {
			return err
		}
	}
	if err := d.content(content); err != nil {
		return err
	}
	if err := d.out.Text(refusal); err != nil {
		return err
	}
	if err := d.calls(toolCalls); err != nil {
		return err
	}
	if functionCall.Set() && empty(toolCalls) { // of an upstream that still has it: the one call
		return d.function(reply.Piece{}, functionCall)
	}
	if !refusal.Set() && !reasoning.Set() && !toolCalls.Set() && !remembers {
		d.only = content
	}
	return nil
}

func empty(list jsonview.View) bool {
	for range list.Elems() {
		return false
	}
	return true
}

// calls takes `tool_calls`: a list, or from some upstreams the one call. Those that have neither index nor id are told
// apart by their places, where there are several.
func (d *Decoder) calls(v jsonview.View) error {
	if v.Kind() == jsonview.Object {
		return d.call(v, -1)
	}
	var first jsonview.View
	for i, c := range v.Elems() {
		switch i {
		case 0:
			first = c
			continue
		case 1:
			if err := d.call(first, 0); err != nil {
				return err
			}
		}
		if err := d.call(c, i); err != nil {
			return err
		}
		first = jsonview.View{}
	}
	if !first.Set() {
		return nil
	}
	return d.call(first, -1)
}

// call takes an element of `tool_calls`: of a chunk's a piece of a call, of a whole reply's a call. place is where it
// stands among several, -1 for one.
func (d *Decoder) call(v jsonview.View, place int) error {
	piece := reply.Piece{Alone: d.whole}
	var function jsonview.View
	for name, member := range v.Members() {
		switch name {
		case "index":
			if member.Set() {
				piece.Index = string(bytes.Trim(member.Raw(), `"`))
			}
		case "id":
			piece.ID, _ = member.Str()
		case "function":
			function = member
		case "extra_content", "provider_specific_fields":
			piece.Own = appendOwnMembers(piece.Own, name, member)
		}
	}
	if place >= 0 && piece.Index == "" && piece.ID == "" {
		piece.Index = strconv.Itoa(place)
	}
	return d.function(piece, function)
}

// function takes the name and a piece of the arguments of a call.
func (d *Decoder) function(piece reply.Piece, v jsonview.View) error {
	for name, member := range v.Members() {
		switch name {
		case "name":
			piece.Name, _ = member.Str()
		case "arguments":
			piece.Arguments = member
		}
	}
	if !piece.Arguments.Set() {
		piece.Arguments = reply.FindArguments(v, "arguments")
	}
	return d.out.Piece(piece)
}

// content takes visible text: a string, or from some upstreams an array of text parts.
func (d *Decoder) content(v jsonview.View) error {
	if v.Kind() != jsonview.Array {
		return d.out.TextOf(v, &d.spoken)
	}
	for _, part := range v.Elems() {
		for _, thought := range part.Get("thinking").Elems() { // of Mistral
			if err := d.out.Reasoning(thought.Get("text")); err != nil {
				return err
			}
		}
		if err := d.out.TextOf(part.Get("text"), &d.spoken); err != nil {
			return err
		}
	}
	return nil
}

// Whole takes a reply in one piece (a 200 that is not a stream) instead, and sends the same events. Its errors are
// those of Data.
func (d *Decoder) Whole(body []byte) error {
	d.whole = true
	if err := d.Data(body); err != nil {
		return err
	}
	if !d.begun {
		return d.out.Fail(llm.Errorf(llm.ErrProtocol, "the upstream's reply holds no choice"))
	}
	d.done = true // it is whole, with or without a finish_reason
	return d.Close()
}

// DecodeReply turns a reply in one piece into events, see Decoder.Whole.
func DecodeReply(body []byte, send func(llm.Event) error) error { return NewDecoder(send).Whole(body) }
