package wire

import "strings"

// Frame is one block of an event stream: the lines before a blank one.
type Frame struct {
	Event, Data, Comment string
	JSON                 map[string]any // of Data; nil for an end marker
}

// ReadFrame reads a block.
func ReadFrame(t Reporter, block string) Frame {
	t.Helper()
	var f Frame
	for line := range strings.SplitSeq(block, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			f.Comment = value
		case "event":
			f.Event = value
		case "data":
			f.Data += value
		default:
			t.Fatalf("a line of a stream is %s", Brief(line))
		}
	}
	if f.Data != "" && f.Data != "[DONE]" {
		v, err := Decode([]byte(f.Data))
		requireTrue(t, err == nil, "the data of an event are no JSON object (%v): %s", err, Brief(f.Data))
		f.JSON = v
	}
	return f
}

// ReadFrames reads a whole stream.
func ReadFrames(t Reporter, raw []byte) []Frame {
	t.Helper()
	text, whole := strings.CutSuffix(string(raw), "\n\n")
	requireTrue(t, whole, "the stream does not end with a blank line: %s", Brief(string(raw[max(0, len(raw)-200):])))
	var frames []Frame
	for block := range strings.SplitSeq(text, "\n\n") {
		frames = append(frames, ReadFrame(t, block))
	}
	return frames
}

// At walks into the data.
func (f Frame) At(path ...any) any { return At(f.JSON, path...) }

// IsKeepAlive tells what keeps a connection open and says nothing else.
func (f Frame) IsKeepAlive() bool { return f.Comment != "" || f.Event == "ping" }

// String is the block as GAP-67 has it: one comment, or one data line that may have an event line before it.
func (f Frame) String() string {
	switch {
	case f.Comment != "":
		return ": " + f.Comment
	case f.Event != "":
		return "event: " + f.Event + "\ndata: " + f.Data
	}
	return "data: " + f.Data
}
