package exchange

import (
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/validate"
	"github.com/fareway/fareway/plugins/llm"
)

// training is what is kept of an exchange to train by, nil where nothing may be: the operator does not ask for it, the
// account or its plan forbids it, or nothing was predicted.
type training struct {
	id, account string
	signal      []byte
	prompt      string // "" where texts are not to be kept, or this one is
	long        bool   // the reply is too long to be compared
}

// mayCollect reports whether outcomes of this exchange may be kept.
func (x *exchange) mayCollect() bool { return x.gen.Config.Outcomes.Allows(&x.req.requires) }

// beginTraining notes what was made of the request, which is let go of before its outcomes show.
func (x *exchange) beginTraining(plan *routing.Itinerary) {
	if len(plan.Traits.Signal) == 0 || !x.mayCollect() {
		return
	}
	x.training = &training{id: x.call.ID, account: x.call.Principal.Account.ID, signal: plan.Traits.Signal}
	if x.gen.Config.Outcomes.AllowsText(&x.req.requires) {
		x.training.prompt = promptOf(x.req.LLM)
	}
}

// promptOf is what the user said last, as much of it as a journal takes: its end.
func promptOf(req *llm.Request) string {
	var texts []string
	for i := len(req.Messages) - 1; i >= 0; i-- {
		m := &req.Messages[i]
		if m.Role != llm.RoleUser {
			if len(texts) > 0 {
				break
			}
			continue
		}
		for j := range m.Parts {
			if text, _ := m.Parts[j].Text.Plain(); text != "" {
				texts = append(texts, text)
			}
		}
	}
	all := strings.Join(texts, "\n")
	return strings.Clone(all[max(0, len(all)-journal.MaxPrompt):])
}

// teach keeps how a route did, from 0 to 1. own is for what a client can bring about by itself.
func (x *exchange) teach(r *config.Route, score float64, from journal.Source, own bool) {
	t := x.training
	if t == nil || !r.Learns() {
		return
	}
	j := x.engine.Journal()
	j.Add(journal.Line{ID: t.id, Account: t.account, Route: r.Name, Model: r.Model, Score: score, From: from, Own: own,
		Signal: t.signal})
	if t.prompt != "" {
		j.AddText(journal.Text{ID: t.id, Account: t.account, Prompt: t.prompt})
		t.prompt = ""
	}
}

// teachVerdict keeps whether a reply was accepted.
func (x *exchange) teachVerdict(r *config.Route, accepted bool, from journal.Source) {
	x.teach(r, scoreOf(accepted), from, !accepted)
}

func scoreOf(good bool) float64 {
	if good {
		return 1
	}
	return 0
}

// teachPair keeps whether two routes say the same. The better one, by what the operator says, is what the other one is
// judged by; of two that are alike, one at most is right where they do not.
func (x *exchange) teachPair(a, b *config.Route, same bool, from journal.Source) {
	switch {
	case a.Quality == b.Quality:
		score := (1 + scoreOf(same)) / 2
		x.teach(a, score, from, false)
		x.teach(b, score, from, false)
	case a.Quality < b.Quality:
		x.teach(a, scoreOf(same), from, false)
	default:
		x.teach(b, scoreOf(same), from, false)
	}
}

// teachAgreement keeps how seats did: of three and more whether each says what most of them do.
func (x *exchange) teachAgreement(replies []*attempt, most *attempt) {
	switch {
	case x.training == nil || len(replies) < 2:
	case len(replies) == 2:
		x.teachPair(replies[0].route, replies[1].route, most != nil, journal.Agreed)
	case most != nil:
		meant := validate.MeaningOf(most.forValidation())
		for _, a := range replies {
			same := a == most || validate.MeaningOf(a.forValidation()).Same(meant)
			x.teach(a.route, scoreOf(same), journal.Agreed, false)
		}
	}
}

// comparesText reports whether the text of a reply is wanted when it has ended, to be compared with another one.
func (x *exchange) comparesText() bool {
	return x.training != nil && x.shadow != nil && !x.training.long
}

// meaningOf is what a reply says that was shown, with what its end still owes; nil where its text was not kept.
func (x *exchange) meaningOf(end ending) *validate.Meaning {
	if !x.comparesText() {
		return nil
	}
	said := x.current.forValidation()
	if x.delivery.stream {
		said.Text += end.rest
	}
	return validate.MeaningOf(said)
}
