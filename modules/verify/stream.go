package verify

import (
	"fmt"
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
)

type frame = wire.Frame

// stream is a whole streamed reply.
type stream struct {
	*answer
	Frames []frame
	Text   string         // all deltas of text together
	Final  map[string]any // on responses, the response in the terminal event
}

// stream asks for a stream and reads it. A refusal ends the check as ok does; so does an error frame, with
// Pending.
func (t *T) stream(s shape, members ...string) *stream {
	return t.readStream(s, t.ask(s, append([]string{`"stream":true`}, members...)...))
}

func (t *T) readStream(s shape, a *answer) *stream {
	if a.Status != 200 {
		t.unserved(s, a)
	}
	if media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";"); media != "text/event-stream" {
		t.Fatalf("%s: the Content-Type is %q", a.call, a.Header.Get("Content-Type"))
	}
	if a.Cut != nil {
		t.Pendingf("%s: the stream broke off: %v", a.call, a.Cut)
	}
	r := &stream{answer: a}
	for _, f := range t.frames(a) {
		if f.JSON["error"] != nil || f.Event == "error" {
			t.Pendingf("%s: the stream ended with an error: %s", a.call, brief(f.Data))
		}
		r.take(s, f)
	}
	if t.own {
		s.Judge(t, r.Frames)
	}
	return r
}

// frames are those of a whole stream; a gateway of the run's own writes them as GAP-67 has them.
func (t *T) frames(a *answer) []frame {
	frames := wire.ReadFrames(t, a.Raw)
	if t.own {
		var again strings.Builder
		for _, f := range frames {
			again.WriteString(f.String() + "\n\n")
		}
		t.Equal(again.String(), string(a.Raw), "the stream")
	}
	return frames
}

// take adds a frame.
func (r *stream) take(s shape, f frame) {
	r.Frames = append(r.Frames, f)
	switch s.Name {
	case "chat":
		r.Text += str(at(f.JSON, "choices", 0, "delta", "content"))
	case "responses":
		if f.Event == "response.output_text.delta" {
			r.Text += str(f.JSON["delta"])
		}
		if oneOf(f.Event, "response.completed", "response.incomplete") {
			r.Final, _ = f.JSON["response"].(map[string]any)
		}
	default:
		r.Text += str(at(f.JSON, "delta", "text"))
	}
}

// loud are the frames that are not keep-alives.
func (r *stream) loud() []frame {
	var all []frame
	for _, f := range r.Frames {
		if !f.IsKeepAlive() {
			all = append(all, f)
		}
	}
	return all
}

// last is the last frame, which is never a keep-alive.
func (r *stream) last() frame { return r.Frames[len(r.Frames)-1] }

// events are the names of the loud frames, runs of the same name once.
func (r *stream) events() []string {
	var names []string
	for _, f := range r.loud() {
		if f.Event != "" && (len(names) == 0 || names[len(names)-1] != f.Event) {
			names = append(names, f.Event)
		}
	}
	return names
}

// named are the frames of an event.
func (r *stream) named(event string) []frame {
	var all []frame
	for _, f := range r.Frames {
		if f.Event == event {
			all = append(all, f)
		}
	}
	return all
}

// usage is the usage of the whole reply: on chat it takes include_usage.
func (r *stream) usage(t *T, s shape) map[string]any {
	var v any
	switch s.Name {
	case "chat":
		for _, f := range r.Frames {
			if choices, ok := f.JSON["choices"].([]any); ok && len(choices) == 0 {
				v = f.JSON["usage"]
			}
		}
	case "responses":
		v = r.Final["usage"]
	default:
		for _, f := range r.named("message_delta") {
			v = f.JSON["usage"]
		}
	}
	usage, ok := v.(map[string]any)
	t.True(ok, "%s: the stream has no final usage", r.call)
	return usage
}

// finish is why the reply ended, as shape.finish.
func (r *stream) Finish(s shape) string {
	switch s.Name {
	case "responses":
		return s.Finish(r.Final)
	case "chat":
		for _, f := range r.Frames {
			if reason := str(at(f.JSON, "choices", 0, "finish_reason")); reason != "" {
				return reason
			}
		}
		return ""
	}
	for _, f := range r.named("message_delta") {
		return str(at(f.JSON, "delta", "stop_reason"))
	}
	return ""
}

// requireEnd checks that the end marker is the last of the stream, and is there once.
func (r *stream) requireEnd(t *T, s shape) {
	markers := 0
	for _, f := range r.Frames {
		if f.Data == "[DONE]" || f.Event == "message_stop" {
			markers++
		}
	}
	t.Equal(1, markers, "the number of end markers")
	if s.Name == "messages" {
		t.Equal("message_stop", r.last().Event, "the last event")
		return
	}
	t.Equal("[DONE]", r.last().Data, fmt.Sprintf("the last data of %s", r.call))
}
