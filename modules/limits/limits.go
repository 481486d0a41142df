// Package limits bounds what a request may cost before anything in it is looked at: the rates of its key, its
// account and its address, the requests that its account has in progress (GAP-01 step 6), then its size and the
// memory that all bodies take together (step 7). It reads the body.
package limits

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/families"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler refuses what is over a limit of the account's plan, and reads the request body, up to the HCL file's
// max_body, while all bodies together, and what will be made of them, stay within max_body_memory. A body has
// request_timeout to arrive. The handler comes after fareway_auth.
type Handler struct{ gateway.Placed }

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.fareway_limits", New: func() caddy.Module { return new(Handler) }}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	call := h.Take(w, r, gateway.LinkLimits)
	if call == nil {
		return nil
	}
	if call.Kind == gateway.Generate {
		// The exchange does that itself when it settles; however else a request ends, it does not stay counted.
		defer call.Work.Release()
	}
	if refusal := takeRates(r, call); refusal != nil {
		return call.Refuse(w, refusal)
	}
	if call.Kind != gateway.Generate && call.Kind != gateway.CountTokens {
		return next.ServeHTTP(w, r) // a body sent with a GET is ignored (GAP-33)
	}
	settings := &call.Work.Generation().Config.Gateway
	body := body{engine: call.Work.Engine(), limit: settings.MaxBody, memory: settings.MaxBodyMemory}
	defer body.release()
	// The server's own timeouts are the site's matter, and may allow a byte a minute. Not every writer has
	// deadlines; those of real connections do.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(call.Start.Add(settings.RequestTimeout))
	if refusal := body.read(r); refusal != nil {
		return call.Refuse(w, refusal)
	}
	// Left set it would end the reply: net/http goes on reading, in order to see the client leave.
	_ = control.SetReadDeadline(time.Time{})
	call.Body, call.BodyRead = body.bytes, time.Now()
	call.Document, call.Misformed = body.document, body.misformed
	body.bytes, body.document = nil, nil
	call.Forget = func() {
		call.Body, call.Document = nil, nil
		body.release()
	}
	return next.ServeHTTP(w, r)
}

// takeRates asks for rates and for a place among the requests in progress. It is not a part of ServeHTTP, see
// takeRates in package auth.
//
//go:noinline
func takeRates(r *http.Request, call *gateway.Call) *families.Error {
	ask := call.Work.Admit
	if call.Kind == gateway.Generate {
		ask = call.Work.AdmitCharged
	}
	return call.Limited(ask(r.Context(), call.Principal, call.From))
}

// body reads a request body within its limit and within the memory for all bodies.
type body struct {
	engine *engine.Engine
	limit  int64 // of this body
	memory int64 // of all bodies
	bytes  []byte
	taken  int64

	document  *families.Document
	misformed *families.Error
}

const (
	// firstRead is the room that is made at first, in bytes. A length that is only claimed takes no more memory.
	firstRead = 32 << 10
	// growth is by how much the room grows when it is full.
	growth = 8
)

// objectCost is what an object in the body is reckoned at, in bytes. The smallest message or tool is under 30
// bytes of text and takes up to 520 while it is decoded, so that a body made of a million of them would
// otherwise cost twenty times what is set aside for it. In those of real clients an object has a hundred bytes
// of text and more.
const objectCost = 512

func (b *body) read(r *http.Request) *families.Error {
	if r.ContentLength > b.limit {
		return b.tooLarge()
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return families.Invalid("Content-Encoding is not supported: send the body as plain JSON.")
	}
	most := b.limit + 1 // one more, so that the end of the body is seen without growing
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1
	}
	if !b.grow(min(firstRead, most)) {
		return gateway.Overloaded()
	}
	for {
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if int64(len(b.bytes)) > b.limit {
			return b.tooLarge()
		}
		var tooLarge *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			return b.parse()
		case errors.As(err, &tooLarge): // a limit of the site's own
			return b.tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &families.Error{Status: http.StatusBadRequest, Code: families.InvalidRequest, Passing: true,
				Message: "The request body did not arrive in time. " +
					"Trying again helps if it comes faster: send less, or over a better connection."}
		case err != nil:
			return &families.Error{Status: http.StatusBadRequest, Code: families.InvalidRequest, Passing: true,
				Message: "The request body could not be read to its end. " +
					"Trying again helps if all of it is sent, in the encoding that its headers say."}
		}
		if len(b.bytes) == cap(b.bytes) && !b.grow(min(growth*int64(cap(b.bytes)), most)) {
			return gateway.Overloaded()
		}
	}
}

// grow makes room for size bytes in all; false when all bodies together would take too much.
func (b *body) grow(size int64) bool {
	if !b.engine.AcquireBody(size - b.taken) {
		return false
	}
	b.taken = size
	grown := make([]byte, len(b.bytes), size)
	copy(grown, b.bytes)
	b.bytes = grown
	return true
}

// parse looks through the body, once, and sets aside the memory that decoding it will take. What is wrong with its
// form is said when its turn comes.
func (b *body) parse() *families.Error {
	if b.document, b.misformed = families.Parse(b.bytes); b.document == nil {
		return nil
	}
	size := int64(b.document.Objects) * objectCost
	if int64(len(b.bytes))+size > b.memory {
		return b.tooLarge() // it would be when nothing else runs, too
	}
	if !b.engine.AcquireBody(size) {
		return gateway.Overloaded()
	}
	b.taken += size
	return nil
}

// release gives the memory back, once.
func (b *body) release() {
	b.engine.ReleaseBody(b.taken)
	b.taken = 0
}

func (b *body) tooLarge() *families.Error {
	return &families.Error{Status: http.StatusRequestEntityTooLarge, Code: families.InvalidRequest,
		Message: "The request body is larger than this service takes. " +
			"Trying again does not help: send less, or begin a new conversation."}
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
