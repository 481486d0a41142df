// Package families registers the request families as guest modules of the namespace fareway.families. A
// module is a thin face over the codec in plugins/families; a fourth family is one folder there and one
// module here.
package families

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
)

func init() {
	caddy.RegisterModule(Chat{})
	caddy.RegisterModule(Messages{})
	caddy.RegisterModule(Responses{})
}

// Chat is the chat-completions family.
type Chat struct{ chat.Server }

// CaddyModule returns the Caddy module information.
func (Chat) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway.families.chat", New: func() caddy.Module { return new(Chat) }}
}

// Messages is the messages family, with its token count.
type Messages struct{ messages.Server }

// CaddyModule returns the Caddy module information.
func (Messages) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway.families.messages", New: func() caddy.Module { return new(Messages) }}
}

// Responses is the responses family.
type Responses struct{ responses.Server }

// CaddyModule returns the Caddy module information.
func (Responses) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway.families.responses", New: func() caddy.Module { return new(Responses) }}
}

var (
	_ families.Server = (*Chat)(nil)
	_ families.Server = (*Messages)(nil)
	_ families.Server = (*Responses)(nil)
)
