package sse

import "bytes"

// Append appends one event: an `event` line unless name is empty, a `data` line for each line of data, and
// the blank line that ends it. name must not contain a line break. A CR in data cannot be written and
// becomes a line break, as CR LF does; all other text reads back as it was.
func Append(b []byte, name string, data []byte) []byte {
	if name != "" {
		b = append(b, "event: "...)
		b = append(b, name...)
		b = append(b, '\n')
	}
	for {
		b = append(b, "data: "...)
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			b = append(b, data...)
			return append(b, '\n', '\n')
		}
		b = append(b, data[:end]...)
		b = append(b, '\n')
		if data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n' {
			end++
		}
		data = data[end+1:]
	}
}

// AppendComment appends a comment, which readers pass over: a keep-alive. text must not contain a line
// break.
func AppendComment(b []byte, text string) []byte {
	b = append(b, ": "...)
	b = append(b, text...)
	return append(b, '\n', '\n')
}
