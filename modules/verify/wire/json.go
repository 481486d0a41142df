package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads one JSON object and nothing else. Numbers are json.Number.
func Decode(raw []byte) (map[string]any, error) {
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return v, nil
}

// At walks into decoded JSON: names of members and indexes of arrays. It is nil where there is nothing.
func At(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// Str is a JSON string, "" for anything else.
func Str(v any) string {
	s, _ := v.(string)
	return s
}

// List is a JSON array, nil for anything else.
func List(v any) []any {
	l, _ := v.([]any)
	return l
}

// Integer is a JSON integer written without a fraction.
func Integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return i, err == nil
}

// Quote writes a JSON string.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can be written
	}
	return string(b)
}

// Brief writes a value for a message: short, and on one line.
func Brief(v any) string {
	s := strings.Join(strings.Fields(fmt.Sprintf("%#v", v)), " ")
	if text, ok := v.(string); ok {
		s = fmt.Sprintf("%q", text)
	}
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// requireTrue fails unless ok.
func requireTrue(t Reporter, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// requireEqual fails unless the two are deeply equal.
func requireEqual(t Reporter, want, got any, what string) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s is %s instead of %s", what, Brief(got), Brief(want))
	}
}
