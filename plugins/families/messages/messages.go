// Package messages is the codec of the messages family, in both directions: POST /v1/messages and the token
// count beside it, content in blocks, errors as {"type":"error"}, streams of typed events.
//
// The server direction (Server) is for the gateway: it reads what clients of the family send and writes what
// they expect. The client direction is for providers whose upstream speaks this API: EncodeRequest writes the
// upstream's request, a Decoder reads its stream, and DecodeReply a reply in one piece. What is not a 2xx
// is read by plugins/internal/reply. Nothing here does I/O; event streams are framed with package sse.
package messages

import (
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// Server is the server direction of the messages family.
type Server struct{}

// Name returns "messages".
func (Server) Name() string { return "messages" }

// Endpoints lists the paths: the reply and the token count, each versioned and not (EP-05, EP-06, CNT-04).
func (Server) Endpoints() []families.Endpoint {
	return []families.Endpoint{
		{Path: "/v1/messages", Kind: families.Generate},
		{Path: "/messages", Kind: families.Generate},
		{Path: "/v1/messages/count_tokens", Kind: families.CountTokens},
		{Path: "/messages/count_tokens", Kind: families.CountTokens},
	}
}

// APIKeyHeader is true: clients of the family send x-api-key (AUTH-08).
func (Server) APIKeyHeader() bool { return true }

// NewEncoder makes the encoder of one reply.
func (Server) NewEncoder(_ *families.Request, head families.Head) families.Encoder {
	return &encoder{head: head}
}

// AppendError appends {"type":"error","error":{"type","message"}} (ERR-04).
func (Server) AppendError(b []byte, e *families.Error) []byte {
	b = appendError(b, e.Code, e.Message)
	return append(b, '}')
}

// appendError appends an error object without its closing brace.
func appendError(b []byte, code families.Code, message string) []byte {
	b = append(b, `{"type":"error","error":{"type":`...)
	b = jsonview.AppendString(b, string(errorType(code)))
	b = append(b, `,"message":`...)
	b = jsonview.AppendString(b, message)
	return append(b, '}')
}

// errorType is what `error.type` says: the code, but for the two that the contract excepts (ERR-05, ERR-06,
// ERR-08, GAP-46).
func errorType(code families.Code) families.Code {
	switch code {
	case families.UnsupportedContent:
		return families.InvalidRequest
	case families.ModelNotFound:
		return families.NotFound
	}
	return code
}

var _ families.Server = Server{}
