// Package upstream is the one fake model service that all of Fareway's tests share. It is a real HTTP
// server on the loopback device that behaves as a service of any of the three request families does (POST
// /v1/chat/completions, /v1/responses and /v1/messages), as Ollama's own API (/api/chat), as Google's
// (/v1beta/models/NAME:streamGenerateContent, and Vertex AI's address for the same) and as Amazon Bedrock's
// (/model/ID/converse-stream), the good days and the bad ones: what it answers to a request is a Reply, a short script
// of Steps that can stream, pause at a gate, report usage in several ways, fail and break off at any byte. One script
// is answered in the shape of the request.
//
// It is strict with requests, as the real services are (decodeChat, decodeResponses, decodeMessages, decodeGemini), so
// that a provider that passes here has a fair chance outside; and it writes down what it served (Record), so that a
// ledger can be compared with it.
//
// Use it from tests of providers and of the gateway: Start in Go, the command cmd/fake-upstream from another
// process, and `fareway gateway verify --ops` for the gateways that it starts itself. It is not for production.
//
// # What is answered
//
// The reply to a request is the first of: the oldest reply queued with Server.Enqueue, the reply set for the
// request's model with Server.SetModel, what Options.Script returns, and Answer, which says the prompt again.
//
// # Services
//
// With Options.Service it is one of the services that speak chat completions and differ from OpenAI, with what their
// documentation says of them: address, key, fields that they refuse, usage, names (services). With Options.Cache it
// keeps the beginnings of prompts as services do, and says in usage what it knew.
//
// # How tokens are counted
//
// One token is one whitespace-separated word. A prompt is the words of all messages (their text, and the
// names and arguments of their tool calls), one more for each message, and the words of the names and
// descriptions of the tools. A completion is the words of the reasoning, the text, and the names and arguments
// of the tool calls; a word that is split over several steps counts once.
package upstream
