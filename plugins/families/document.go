package families

import (
	"bytes"
	"errors"
	"strings"
	"unicode"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// maxDepth is how deep arrays and objects of a request body may be nested (GAP-33).
const maxDepth = 1000

// Document is a request body that is a JSON object: valid, not too deeply nested, and free of
// credential-like names.
type Document struct {
	Root jsonview.View
	// Objects is how many objects there are in it: what decoding it costs, in its own measure.
	Objects int

	model jsonview.View
}

// Parse checks a request body: JSON syntax, UTF-8, depth and top level (GAP-01 step 8, GAP-33), then
// credential-like field names at the top level and inside metadata (step 9, GAP-30). The document refers
// to body, which must not change while it is used. Messages say where in the body the mistake is, and
// never hold a piece of it but the field's name.
func Parse(body []byte) (*Document, *Error) {
	root, objects, err := jsonview.ParseCounting(body, maxDepth)
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return nil, Invalid("The request body is empty: send a JSON object.")
	case err != nil:
		return nil, Invalid("The request body is not valid JSON: " + reason(err) + ". Correct it.")
	case root.Kind() != jsonview.Object:
		return nil, Invalid("The request body must be a JSON object, " +
			"not of type " + root.Kind().String() + ": send an object.")
	}
	doc := &Document{Root: root, Objects: objects}
	for name, member := range root.Members() {
		if word, ok := credentialWord(name); ok {
			return nil, credentialField(name, word)
		}
		switch name {
		case "model":
			doc.model = member
		case "metadata":
			for inner := range member.Names() {
				if word, ok := credentialWord(inner); ok {
					return nil, credentialField(inner, word)
				}
			}
		}
	}
	return doc, nil
}

// Model returns the `model` field: a 400 when it is missing, null, empty or not a string (step 10, GAP-08).
func (d *Document) Model() (string, *Error) {
	if !d.model.Set() {
		return "", Invalid("model is required: send \"service/auto\".")
	}
	model, ok := d.model.Str()
	if !ok {
		return "", Invalid("model must be a string: send \"service/auto\".")
	}
	if model == "" {
		return "", Invalid("model must not be empty: send \"service/auto\".")
	}
	return model, nil
}

// reason says what is wrong with the syntax, without the lead-in that Go errors have.
func reason(err error) string {
	var syntax *jsonview.SyntaxError
	if errors.As(err, &syntax) {
		return syntax.Error()
	}
	return "it cannot be read"
}

func credentialField(name, word string) *Error {
	if len(name) > 64 {
		name = word
	}
	return Invalid("The field " + string(jsonview.AppendString(nil, name)) +
		" is named like a credential. Remove it: credentials belong in the Authorization header only.")
}

// credentialWords are the names refused by GAP-30, as credentialWord normalises them.
var credentialWords = wordSet("apikey xapikey apisecret secret secretkey clientsecret password passwd " +
	"authorization proxyauthorization auth authtoken accesstoken refreshtoken idtoken bearer bearertoken " +
	"token jwt credential credentials cookie cookies setcookie session sessionid sessiontoken sessionkey " +
	"sid csrftoken privatekey")

func wordSet(words string) map[string]string {
	set := make(map[string]string)
	for word := range strings.FieldsSeq(words) {
		set[word] = word
	}
	return set
}

// credentialWord reports whether a field's name, in lower case and without "-", "_", "." and blanks, is one
// of credentialWords, and which.
func credentialWord(name string) (string, bool) {
	var buf [len("proxyauthorization") + 4]byte
	word := buf[:0]
	for _, r := range name {
		if r == '-' || r == '_' || r == '.' || unicode.IsSpace(r) {
			continue
		}
		r = unicode.ToLower(r)
		if r >= 0x80 || len(word) == len("proxyauthorization") {
			return "", false
		}
		word = append(word, byte(r))
	}
	found, ok := credentialWords[string(word)]
	return found, ok
}
