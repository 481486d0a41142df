package upstream

import (
	"encoding/json"
	"net/http"
	"slices"
)

// Request is a request that the fake accepted.
type Request struct {
	// N counts the requests of a Server from 1, in the order of their arrival.
	N int64
	// ID is the reply's id, unique within a Server.
	ID string
	// Family is the shape it came in: "chat", "responses", "messages" or "gemini".
	Family string
	// Header is the HTTP header, with credentials replaced by "[redacted]".
	Header http.Header
	// Body is the request as it came.
	Body json.RawMessage

	Model     string
	Messages  []Message
	Tools     []Tool
	Stop      []string
	MaxTokens int64 // 0: none given
	// Room is how many tokens Ollama was asked to load the model with, and Cuts that it may drop what does not fit.
	Room         int64
	Cuts         bool
	Stream       bool
	credential   string
	Thoughts     bool   // a gemini request asked to see what is thought; the other families always do
	unsigned     bool   // a gemini request has calls of the current turn whose first one is without a good signature
	Timings      bool   // a llama.cpp server is to say with each chunk what it has done
	Choice       string // of a tool, as a llama.cpp server reads it: one that names a tool is auto
	IncludeUsage bool   // a chat request asked for usage in its stream; the other families always have it
}

// Message is one message of a request. Text is all its text, joined.
type Message struct {
	Role       string
	Text       string
	ToolCallID string
	Calls      []PastCall
	Reasoning  *string // chat, messages, Ollama: what is said to have been thought before, nil for nothing said
	thought    bool    // messages: it begins with what was thought
}

// PastCall is a tool call that a message of the conversation made.
type PastCall struct {
	ID, Name, Arguments string
	extra               any // chat: extra_content, nil for none
}

// signed reports whether a call comes with a signature that Google takes.
func (c *PastCall) signed() bool {
	extra, _ := asObject("", c.extra)
	google, _ := extra.object("google")
	return slices.Contains(goodSignatures, google.fields["thought_signature"])
}

// Tool is a function that a request offers.
type Tool struct {
	Name, Description string
}

// Shows reports whether the request came with this key.
func (r *Request) Shows(key string) bool { return r.credential == key }

// LastUser is the text of the last user message, "" if there is none.
func (r *Request) LastUser() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return r.Messages[i].Text
		}
	}
	return ""
}
