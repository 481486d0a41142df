// Package responses is the codec of the responses family, in both directions: POST /v1/responses, a conversation
// of typed items, streams of typed and numbered events.
//
// The server direction (Server) is for the gateway: it reads what clients of the family send and writes what
// they expect. The client direction is for providers whose upstream speaks this API: EncodeRequest writes the
// upstream's request, a Decoder reads its stream, and DecodeReply a reply in one piece. What is not a 2xx
// is read by plugins/internal/reply. Nothing here does I/O; event streams are framed with package sse.
package responses

import (
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/failure"
)

// Server is the server direction of the responses family.
type Server struct{}

// Name returns "responses".
func (Server) Name() string { return "responses" }

// Endpoints lists the one path; the family has no unversioned one (EP-04).
func (Server) Endpoints() []families.Endpoint {
	return []families.Endpoint{{Path: "/v1/responses", Kind: families.Generate}}
}

// APIKeyHeader is false: x-api-key alone is no credential here (AUTH-13).
func (Server) APIKeyHeader() bool { return false }

// NewEncoder makes the encoder of one reply to a request that Decode returned.
func (Server) NewEncoder(req *families.Request, head families.Head) families.Encoder {
	e := &encoder{head: head, openText: -1}
	e.echo, _ = req.Echo.(echo)
	return e
}

// AppendError appends {"error":{"code","message","type"}}, with param where the model is unknown (ERR-01 to
// ERR-07).
func (Server) AppendError(b []byte, e *families.Error) []byte {
	return failure.Append(b, e)
}

var _ families.Server = Server{}
