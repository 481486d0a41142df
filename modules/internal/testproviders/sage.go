package main

import (
	"context"
	"errors"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// sage is a provider that predicts by what the last text has in it.
type sage struct{ provider.PredictorOnly }

func newSage() provider.Provider { return new(sage) }

func (*sage) Predict(ctx context.Context, requests []llm.PredictRequest) (all []llm.Prediction, err error) {
	for _, r := range requests {
		text := r.Texts[len(r.Texts)-1].Text
		var p llm.Prediction
		for i, route := range r.Routes {
			switch {
			case strings.Contains(text, "upside down"):
				p = append(p, 1-route.Quality)
			case strings.Contains(text, "half known"):
				p = append(p, []float64{0.01, llm.Unknown}[i%2])
			case strings.Contains(text, "mumble"):
				p = append(p, 7)
			}
		}
		switch {
		case strings.Contains(text, "dawdle"):
			<-ctx.Done()
		case strings.Contains(text, "stumble"):
			err = errors.New("the model of this sage is away")
		}
		all = append(all, p)
	}
	return all, err
}
