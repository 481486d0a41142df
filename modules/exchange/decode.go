package exchange

import (
	"net/http"
	"net/textproto"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// request is a client request that passed every rule of form.
type request struct {
	*families.Request
	// described is the form for routes that do not enforce schemas, nil where all get the same (see structured.go).
	described *llm.Request
	model     string // as sent, echoed
	profile   string // resolved
	// requires is what the account demands of routes.
	requires config.Requires
}

// wantsWhole reports whether upstreams are asked for a reply in one piece. It may lose the order of its texts and tool
// calls, and so the place of a stop sequence between them: it would end elsewhere than the same reply as a stream
// (STOP-10 to STOP-12). Where nothing is looked for, and the client sees no order, nothing is lost.
func (r *request) wantsWhole() bool {
	return !r.Stream && (len(r.LLM.Tools) == 0 || r.OneText && len(r.LLM.Stop) == 0)
}

// decode takes steps 8 to 14 of the order (see the package's doc).
func decode(r *http.Request, call *gateway.Call) (*request, *families.Error) {
	settings := &call.Work.Generation().Config.Gateway
	doc := call.Document
	if doc == nil {
		return nil, call.Misformed
	}
	model, refusal := doc.Model()
	if refusal != nil {
		return nil, refusal
	}
	modelProfile, ok := routing.Accept(settings.Namespace, settings.ClientModels, model)
	if !ok {
		return nil, modelNotFound(settings.Namespace + "/auto")
	}
	ask := routing.Ask{
		Header: r.Header[textproto.CanonicalMIMEHeaderKey("x-"+settings.Namespace+"-profile")],
		Model:  modelProfile,
	}
	// The header is judged before the fields are, though effort may still outrank the default.
	plan := engine.PlanOf(call.Work.Generation().Config, call.Principal.Account)
	fallback := plan.DefaultProfile
	if _, err := routing.Profile(ask, fallback); err != nil {
		return nil, families.Invalid(err.Error())
	}
	decoded, refusal := call.Family.Decode(doc, families.Rules{StructuredOutput: settings.StructuredOutput})
	if refusal != nil {
		return nil, refusal
	}
	affinity.Prepare(decoded.LLM)
	ask.Effort = decoded.Effort
	profile, err := routing.Profile(ask, fallback)
	if err != nil {
		return nil, families.Invalid(err.Error())
	}
	req := &request{Request: decoded, model: model, profile: profile, requires: plan.Requires}
	req.instruct()
	return req, nil
}
