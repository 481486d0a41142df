package upstream

import "net/http"

// family is one of the shapes in which the service takes requests and replies.
type family struct {
	name string
	path string
	also []string // further paths
	id   string   // begins the ids of replies

	// credential is the key that a request shows, "" for none; check refuses its header with an *Error.
	credential func(http.Header) string
	check      func(http.Header) error
	// decode reads a request as strictly as the official service does. The error is an *Error.
	decode func(body []byte) (*Request, error)
	// address reads what stands in the address, with an *Error; nil where nothing does.
	address func(*http.Request, *Request) error
	render  func(*Request, Reply, head) renderer
	// failure is an error as the body of a reply: an object of JSON, or Error.Body.
	failure func(*Error) []byte
	// marks says that requests mark what is to be kept, and that usage tells what was written to the cache.
	marks bool
	// fit, where there is one, does what the service does with a prompt that is too long. The error is an *Error.
	fit func(*Server, *Request) error
	// waitInBody: failure says how long to wait, and no header does.
	waitInBody bool
}

// refuse sends an error as a whole HTTP reply of a service, and returns how many bytes its body has.
func (f *family) refuse(w http.ResponseWriter, e *Error, of service) int64 {
	sent := *e
	if f.waitInBody {
		sent.RetryAfter = ""
	}
	return sent.write(w, of.failure(f, e))
}

// head is what a reply says of itself.
type head struct {
	ID      string
	Model   string
	Created int64
}

// families are the shapes that the service speaks.
var families = []*family{
	{name: "chat", path: "/v1/chat/completions", id: "chatcmpl-fake-", credential: bearer, check: anyHeader,
		decode: decodeChat, render: renderChat, failure: chatFailure},
	{name: "responses", path: "/v1/responses", id: "resp_fake_", credential: bearer, check: anyHeader,
		decode: decodeResponses, render: renderResponses, failure: chatFailure},
	{name: "messages", path: "/v1/messages", id: "msg_fake_", credential: messagesCredential, check: messagesHeader,
		decode: decodeMessages, render: renderMessages, failure: messagesFailure, marks: true},
	{name: "bedrock", path: "/model/{model}/converse-stream", id: "bedrock-fake-", credential: bedrockCredential,
		check: anyHeader, decode: decodeBedrock, render: renderBedrock, failure: bedrockFailure, marks: true},
	{name: "ollama", path: "/api/chat", id: "ollama-fake-", credential: bearer, check: anyHeader,
		decode: decodeOllama, render: renderOllama, failure: ollamaFailure, fit: (*Server).ollamaFit},
	{name: "gemini", path: "/v1beta/models/{call}",
		also: []string{"/v1/projects/{project}/locations/{location}/publishers/google/models/{call}"},
		id:   "gemini-fake-", credential: geminiCredential, check: anyHeader, decode: decodeGemini, address: geminiAddress,
		render: renderGemini, failure: geminiFailure, waitInBody: true},
}

func bearer(h http.Header) string {
	const scheme = "Bearer "
	if v := h.Get("Authorization"); len(v) > len(scheme) && v[:len(scheme)] == scheme {
		return v[len(scheme):]
	}
	return ""
}

func anyHeader(http.Header) error { return nil }
