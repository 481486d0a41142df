package reply

import (
	"bytes"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// ErrorChunk makes what an event of the name error says a chunk that is an error in every dialect.
func ErrorChunk(data []byte) []byte {
	data = bytes.TrimSpace(data)
	root, err := jsonview.Parse(data, maxDepth)
	switch {
	case err != nil:
		return append(jsonview.AppendString([]byte(`{"error":`), string(bytes.ToValidUTF8(data, nil))), '}')
	case root.Get("error").Set():
		return data
	}
	return append(append([]byte(`{"error":`), data...), '}')
}

// BareChunk is the chunk that a line without a field's name is: an error where it says so itself, and nil otherwise.
func BareChunk(line []byte) []byte {
	root, err := jsonview.Parse(bytes.TrimSpace(line), maxDepth)
	if err != nil || !isError(root) {
		return nil
	}
	return ErrorChunk(line)
}

// Odd is for a chunk in which a decoder found nothing that it knows: the error that it is, where it says so, and nil
// otherwise. Services send what is the body of a refusal elsewhere.
func Odd(root jsonview.View) error {
	if isError(root) || root.Get("message").Kind() == jsonview.String || root.Get("detail").Set() ||
		root.Get("errors").Kind() == jsonview.Array {
		return Failure(root)
	}
	return nil
}

// isError reports whether an object says of itself that it is an error.
func isError(root jsonview.View) bool {
	if root.Get("error").Set() {
		return true
	}
	if code, ok := root.Get("base_resp").Get("status_code").Int(); ok && code != 0 { // MiniMax's, in a 200
		return true
	}
	object, _ := root.Get("object").Str()
	kind, _ := root.Get("type").Str()
	status, _ := root.Get("status").Int() // RFC 9457, or a refusal that says what its status was
	return object == "error" || kind == "error" || status >= 400 && root.Get("title").Kind() == jsonview.String ||
		root.Get("response").Get("error").Set()
}

// failed is the error of an upstream that answers with its list of errors where an object is due (Gemini), nil for any
// other array.
func failed(root jsonview.View) *llm.Error {
	for _, each := range root.Elems() {
		if isError(each) {
			return Failure(root)
		}
	}
	return nil
}
