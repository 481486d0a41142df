package upstream

import (
	"net/http"
	"strings"
)

// bedrockLists adds the lists of Bedrock's control plane (API reference, "ListFoundationModels" and
// "ListInferenceProfiles"): of Options.Models, a name with a place before its maker's ("eu.anthropic.claude-x") is a
// profile, through which alone its model is offered.
func (s *Server) bedrockLists() {
	for path, list := range map[string]func(*Server) any{
		"GET /foundation-models": bedrockModels, "GET /inference-profiles": bedrockProfiles,
	} {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if key := s.options.APIKey; key != "" && bedrockCredential(r.Header) != key {
				e := InvalidKey()
				e.write(w, bedrockFailure(&e))
				return
			}
			if len(s.options.Models) == 0 {
				notFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(mustMarshal(list(s))) // the client may be gone
		})
	}
}

// bedrockProfile is the model of a profile, "" for the name of a model.
func bedrockProfile(name string) string {
	place, model, _ := strings.Cut(name, ".")
	if len(place) > len("apac") && place != "global" || !strings.Contains(model, ".") {
		return ""
	}
	return model
}

func bedrockModels(s *Server) any {
	models := []map[string]any{}
	for _, name := range s.options.Models {
		model, offered := name, "ON_DEMAND"
		if of := bedrockProfile(name); of != "" {
			model, offered = of, "INFERENCE_PROFILE"
		}
		models = append(models, map[string]any{"modelId": model, "modelArn": bedrockARN(model),
			"inputModalities": []string{"TEXT"}, "outputModalities": []string{"TEXT"}, "responseStreamingSupported": true,
			"inferenceTypesSupported": []string{offered}, "modelLifecycle": map[string]string{"status": "ACTIVE"}})
	}
	return map[string]any{"modelSummaries": models}
}

func bedrockProfiles(s *Server) any {
	profiles := []map[string]any{}
	for _, name := range s.options.Models {
		if of := bedrockProfile(name); of != "" {
			profiles = append(profiles, map[string]any{"inferenceProfileId": name, "status": "ACTIVE",
				"type": "SYSTEM_DEFINED", "models": []map[string]string{{"modelArn": bedrockARN(of)}}})
		}
	}
	return map[string]any{"inferenceProfileSummaries": profiles}
}

func bedrockARN(model string) string {
	return "arn:aws:bedrock:eu-central-1::foundation-model/" + model
}
