// Package gemini is the wire format of Google's generateContent, of the Gemini API and of Vertex AI, in the client
// direction. It is a dialect of upstreams and no family: no client speaks it to the gateway.
//
// Written against the reference of the Gemini API (ai.google.dev/api/generate-content), its guides "Function calling",
// "Thinking" and "Thought signatures", and the types that Google generates for both services (googleapis/go-genai,
// types.go of 21 August 2026); read in November 2026.
package gemini

// Options are what a request asks for beside what the canonical request says. The zero value asks for nothing.
type Options struct {
	// ThinkingBudget is how many tokens the model may think for: 0 for none, -1 for as many as it wants; nil leaves it to
	// the model.
	ThinkingBudget *int64
	// ThinkingLevel is the same for models that have levels (Gemini 3): "minimal", "low", "medium", "high".
	ThinkingLevel string
}

// made begins the ids of calls that the service gave none: those are not sent to it.
const made = "call_made_"
