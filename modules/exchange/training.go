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
func (f *feedback) mayCollect() bool { return f.gen.Config.Outcomes.Allows(&f.req.requires) }

// beginTraining notes what was made of the request, which is let go of before its outcomes show.
func (f *feedback) beginTraining(plan *routing.Itinerary) {
	if len(plan.Traits.Signal) == 0 || !f.mayCollect() {
		return
	}
	f.training = &training{id: f.call.ID, account: f.call.Principal.Account.ID, signal: plan.Traits.Signal}
	if f.gen.Config.Outcomes.AllowsText(&f.req.requires) {
		f.training.prompt = promptOf(f.req.LLM)
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
func (f *feedback) teach(r *config.Route, score float64, from journal.Source, own bool) {
	t := f.training
	if t == nil || !r.Learns() {
		return
	}
	j := f.engine.Journal()
	j.Add(journal.Line{ID: t.id, Account: t.account, Route: r.Name, Model: r.Model, Score: score, From: from, Own: own,
		Signal: t.signal})
	if t.prompt != "" {
		j.AddText(journal.Text{ID: t.id, Account: t.account, Prompt: t.prompt})
		t.prompt = ""
	}
}

// teachVerdict keeps whether a reply was accepted.
func (f *feedback) teachVerdict(r *config.Route, accepted bool, from journal.Source) {
	f.teach(r, scoreOf(accepted), from, !accepted)
}

func scoreOf(good bool) float64 {
	if good {
		return 1
	}
	return 0
}

// teachPair keeps whether two routes say the same. The better one, by what the operator says, is what the other one is
// judged by; of two that are alike, one at most is right where they do not.
func (f *feedback) teachPair(a, b *config.Route, same bool, from journal.Source) {
	switch {
	case a.Quality == b.Quality:
		score := (1 + scoreOf(same)) / 2
		f.teach(a, score, from, false)
		f.teach(b, score, from, false)
	case a.Quality < b.Quality:
		f.teach(a, scoreOf(same), from, false)
	default:
		f.teach(b, scoreOf(same), from, false)
	}
}

// teachAgreement keeps how seats did: of three and more whether each says what most of them do.
func (f *feedback) teachAgreement(replies []*attempt, most *attempt) {
	switch {
	case f.training == nil || len(replies) < 2:
	case len(replies) == 2:
		f.teachPair(replies[0].route, replies[1].route, most != nil, journal.Agreed)
	case most != nil:
		meant := validate.MeaningOf(most.forValidation())
		for _, a := range replies {
			same := a == most || validate.MeaningOf(a.forValidation()).Same(meant)
			f.teach(a.route, scoreOf(same), journal.Agreed, false)
		}
	}
}

// comparesText reports whether the text of a reply is wanted when it has ended, to be compared with another one.
func (f *feedback) comparesText() bool {
	return f.training != nil && f.shadow != nil && !f.training.long
}

// dropText gives up that the text is kept: it is too long.
func (f *feedback) dropText() {
	if f.training != nil {
		f.training.long = true
	}
}

// meaningOf is what a reply says that was shown, with what its end still owes; nil where its text was not kept.
func (f *feedback) meaningOf(a *attempt, end ending) *validate.Meaning {
	if !f.comparesText() {
		return nil
	}
	reply := a.forValidation()
	if f.req.Stream {
		reply.Text += end.rest
	}
	return validate.MeaningOf(reply)
}
