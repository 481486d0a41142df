package gemini

import (
	"cmp"
	"crypto/rand"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Decoder turns an upstream's stream into events. Make one for each reply, hand it the data of each event of the
// stream, and Close it when the stream ends, however it ended. It does not send EventAccepted: that is due when the
// upstream's headers have come.
//
// Each chunk is a whole GenerateContentResponse with what is new. The stream has no end marker: a reply is whole when
// a chunk has said why it ended. Usage comes in every chunk, and is sent once, before the end. Calls come whole.
type Decoder struct {
	out     *reply.Stream
	ended   bool  // the upstream has said why the reply ended
	stopped bool  // of its own will
	begun   *call // that is to be said once more, with its arguments
}

// call is how an upstream names a call.
type call struct{ id, name, signature string }

// NewDecoder makes a Decoder that hands its events to send. An error of send ends the decoding; the method that met it
// returns it.
func NewDecoder(send func(llm.Event) error) *Decoder {
	return &Decoder{out: reply.New(counting, send)}
}

// counting is how Google counts: what was cached is a part of the prompt, and thoughts are none of the candidates. A
// count of zero is left out.
var counting = reply.Counting{Input: "promptTokenCount", Output: "candidatesTokenCount", ReasoningBeside: true}

// Allowance bounds what the total alone says of the output, see reply.Stream.
func (d *Decoder) Allowance(tokens int64) { d.out.Allowance(tokens) }

// Data takes the data of one event of the stream. After an error the stream is over. Errors are *llm.Error, or what
// send returned.
func (d *Decoder) Data(data []byte) error { return d.out.Take(data, d.chunk) }

// Done reports whether nothing more can come, which no stream of this dialect says.
func (d *Decoder) Done() bool { return false }

// ID is what the upstream calls the reply, "" while it has not said.
func (d *Decoder) ID() string { return d.out.ID }

// Close ends the reply: with EventFinish if the upstream has said why it ended, and otherwise with an *llm.Error of
// kind llm.ErrBroken. After an error of Data it returns that error.
func (d *Decoder) Close() error {
	if !d.ended {
		return d.out.Broken()
	}
	if d.begun != nil && d.out.Err() == nil {
		return d.out.Fail(llm.Errorf(llm.ErrProtocol, "the upstream ended its reply within a call"))
	}
	if d.stopped && d.out.Calls() > 0 { // there is no word for it
		d.out.Finished(llm.FinishToolCalls)
	}
	return d.out.End()
}

// Whole takes a reply in one piece instead.
func (d *Decoder) Whole(body []byte) error {
	if err := d.Data(body); err != nil {
		return err
	}
	if !d.ended && d.out.Err() == nil {
		return d.out.Fail(llm.Errorf(llm.ErrProtocol, "the upstream's reply does not say why it ended"))
	}
	return d.Close()
}

func (d *Decoder) chunk(root jsonview.View) error {
	var candidates, feedback, usage, failed jsonview.View
	for name, member := range root.Members() {
		switch name {
		case "candidates":
			candidates = member
		case "promptFeedback":
			feedback = member
		case "usageMetadata":
			usage = member
		case "error":
			failed = member
		case "modelVersion":
			d.out.Model, _ = member.Str()
		case "responseId":
			d.out.ID, _ = member.Str()
		}
	}
	if err := d.candidate(first(candidates)); err != nil {
		return err
	}
	d.out.Used(usage)
	if failed.Set() {
		return reply.Failure(root)
	}
	if !candidates.Set() && !feedback.Set() && !usage.Set() {
		return reply.Odd(root)
	}
	if reason, _ := feedback.Get("blockReason").Str(); reason != "" && !d.ended {
		return llm.Errorf(llm.ErrPolicy, "%s", reply.LogText("the upstream declined the prompt", reason))
	}
	return nil
}

// first is the candidate whose index is 0, or is left out, as 0 is. One was asked for; another is none of the reply.
func first(candidates jsonview.View) jsonview.View {
	for _, candidate := range candidates.Elems() {
		if index, ok := candidate.Get("index").Int(); !ok || index == 0 {
			return candidate
		}
	}
	return jsonview.View{}
}

func (d *Decoder) candidate(candidate jsonview.View) error {
	for _, part := range candidate.Get("content").Get("parts").Elems() {
		if err := d.part(part); err != nil {
			return err
		}
	}
	if word, ok := candidate.Get("finishReason").Str(); ok {
		reason := readFinish(word)
		d.ended, d.stopped = true, d.stopped || reason == llm.FinishStop
		d.out.Finished(reason)
	}
	return nil
}

// part takes a piece of text, a thought or a call. What the service runs itself is passed over.
func (d *Decoder) part(part jsonview.View) error {
	var text, call, signature jsonview.View
	thought := false
	for name, member := range part.Members() {
		switch name {
		case "text":
			text = member
		case "thought":
			thought, _ = member.Bool()
		case "functionCall":
			call = member
		case "thoughtSignature":
			signature = member
		}
	}
	switch {
	case call.Set():
		return d.call(call, signature)
	case thought:
		return d.out.Reasoning(text)
	}
	return d.out.Text(text)
}

// call takes a call. Where it is to go on (Vertex AI, "Function calling", streamed arguments) only the last of it
// counts, which has its arguments; arguments in parts nobody asked for.
func (d *Decoder) call(v, signature jsonview.View) error {
	var c call
	c.id, _ = v.Get("id").Str()
	c.name, _ = v.Get("name").Str()
	c.signature, _ = signature.Str()
	more, _ := v.Get("willContinue").Bool()
	if v.Get("partialArgs").Set() {
		return llm.Errorf(llm.ErrProtocol, "the upstream sent the arguments of a call in parts")
	}
	if before := d.begun; before != nil {
		if c.name != "" && c.name != before.name || c.id != "" && before.id != "" && c.id != before.id {
			return llm.Errorf(llm.ErrProtocol, "the upstream began a call within another one")
		}
		c = call{cmp.Or(c.id, before.id), before.name, cmp.Or(c.signature, before.signature)}
	}
	if d.begun = nil; more {
		d.begun = &c
		return nil
	}
	begun, err := d.out.CallWith(cmp.Or(c.id, made+rand.Text()), c.name, []byte(c.signature))
	if err != nil {
		return err
	}
	if err := begun.Piece(reply.FindArguments(v, "args")); err != nil {
		return err
	}
	return begun.End()
}

// finishes are the service's own words for the end of a reply, beside those that others have as well. What is not here
// is no proper end (GAP-114): MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, TOO_MANY_TOOL_CALLS, LANGUAGE and OTHER
// say that the model did not get along with the request.
var finishes = map[string]llm.FinishReason{
	"FINISH_REASON_UNSPECIFIED": llm.FinishUnknown,

	"BLOCKLIST":                llm.FinishPolicy,
	"RECITATION":               llm.FinishPolicy,
	"SPII":                     llm.FinishPolicy, // personal data
	"MODEL_ARMOR":              llm.FinishPolicy,
	"IMAGE_SAFETY":             llm.FinishPolicy,
	"IMAGE_PROHIBITED_CONTENT": llm.FinishPolicy,
	"IMAGE_RECITATION":         llm.FinishPolicy,
}

func readFinish(word string) llm.FinishReason {
	if reason, ok := finishes[word]; ok {
		return reason
	}
	return reply.Finish(word)
}
