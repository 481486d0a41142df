package config

import (
	"encoding/json"
	"fmt"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// ModelsFor are those of the models that a plugin knows which hold with these settings.
func ModelsFor(values settings.Values, known []llm.Model) []llm.Model {
	var set map[string]any
	if len(values) > 0 && json.Unmarshal(values, &set) != nil {
		return nil
	}
	var out []llm.Model
	for _, m := range known {
		holds := true
		for name, want := range m.Where {
			value := ""
			if v, ok := set[name]; ok {
				value = fmt.Sprint(v)
			}
			holds = holds && value == want
		}
		if holds {
			out = append(out, m)
		}
	}
	return out
}
