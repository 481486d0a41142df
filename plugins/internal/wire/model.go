package wire

import (
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// ModelsToProto translates models.
func ModelsToProto(models []llm.Model) []*proto.Model {
	var out []*proto.Model
	for _, m := range models {
		if !isModelID(m.ID) {
			continue
		}
		to := &proto.Model{Id: m.ID, ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput, Offers: m.Offers,
			Where: m.Where, Source: Clip(m.Source), Date: Clip(m.Date)}
		if p := m.Price; p != nil {
			to.Price = &proto.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
		}
		out = append(out, to)
	}
	return out
}

// isModelID reports whether a text can be a model's id: one that is too long to be shown, or that cannot be, is not
// what anybody would call.
func isModelID(id string) bool { return id != "" && Clip(id) == id }

// ModelsFromProto translates models back. One without an id that can be shown is left out, and a size below zero is
// not known; nothing else of them is checked.
func ModelsFromProto(models []*proto.Model) []llm.Model {
	var out []llm.Model
	for _, m := range models {
		if !isModelID(m.GetId()) {
			continue
		}
		to := llm.Model{ID: m.GetId(), ContextWindow: max(m.GetContextWindow(), 0), MaxOutput: max(m.GetMaxOutput(), 0),
			Offers: m.GetOffers(), Where: m.GetWhere(), Source: Clip(m.GetSource()), Date: Clip(m.GetDate())}
		if p := m.GetPrice(); p != nil {
			to.Price = &llm.ModelPrice{Input: p.GetInput(), Output: p.GetOutput(), CacheRead: p.GetCacheRead(),
				CacheWrite: p.GetCacheWrite()}
		}
		out = append(out, to)
	}
	return out
}
