// Package chat is the codec of the chat-completions family, in both directions.
//
// The server direction (Server) is for the gateway: it reads what chat clients send and writes what they
// expect. The client direction is for providers whose upstream speaks this API: EncodeRequest writes the
// upstream's request, a Decoder reads its stream, and DecodeReply a reply in one piece. What is not a
// 2xx is read by plugins/internal/reply. Nothing here does I/O; event streams are framed with package sse.
//
// The canonical model orders text and tool calls, this family does not: a message is sent as its text
// joined, then its calls.
package chat

import (
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/failure"
)

// Server is the server direction.
type Server struct{}

// Name returns "chat".
func (Server) Name() string { return "chat" }

// Endpoints lists the versioned and the unversioned path.
func (Server) Endpoints() []families.Endpoint {
	return []families.Endpoint{
		{Path: "/v1/chat/completions", Kind: families.Generate},
		{Path: "/chat/completions", Kind: families.Generate},
	}
}

// APIKeyHeader reports that x-api-key alone does not authenticate here (AUTH-13).
func (Server) APIKeyHeader() bool { return false }

// NewEncoder makes the encoder of one reply.
func (Server) NewEncoder(req *families.Request, head families.Head) families.Encoder {
	return newEncoder(req.Stream && req.IncludeUsage, head)
}

// AppendError appends {"error":{"code","message","type"}}, with param for an unknown model (ERR-01 to
// ERR-07).
func (Server) AppendError(b []byte, e *families.Error) []byte {
	return failure.Append(b, e)
}

var _ families.Server = Server{}
