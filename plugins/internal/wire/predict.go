package wire

import (
	"strings"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// CheckPredictions is an error of kind ErrProtocol where predictions are none of these requests.
func CheckPredictions(requests []llm.PredictRequest, predictions []llm.Prediction) error {
	if len(predictions) != len(requests) {
		return llm.Errorf(llm.ErrProtocol, "there are %d predictions for %d requests", len(predictions), len(requests))
	}
	for i, p := range predictions {
		if len(p) != 0 && len(p) != len(requests[i].Routes) {
			return llm.Errorf(llm.ErrProtocol, "a prediction has %d qualities for %d routes", len(p), len(requests[i].Routes))
		}
		for _, q := range p {
			if q != llm.Unknown && !(q >= 0 && q <= 1) { // NaN is neither
				return llm.Errorf(llm.ErrProtocol, "a quality is neither from 0 to 1 nor -1")
			}
		}
	}
	return nil
}

// PredictRequestsToProto translates requests. The protocol's strings are valid UTF-8.
func PredictRequestsToProto(requests []llm.PredictRequest) *proto.PredictRequest {
	out := &proto.PredictRequest{Requests: make([]*proto.PredictedRequest, len(requests))}
	for i, r := range requests {
		p := &proto.PredictedRequest{Texts: TextsToProto(r.Texts), InputTokens: r.InputTokens, Tools: r.Tools,
			Routes: make([]*proto.PredictedRoute, len(r.Routes))}
		for k, route := range r.Routes {
			p.Routes[k] = &proto.PredictedRoute{Name: route.Name, Model: strings.ToValidUTF8(route.Model, "\uFFFD"),
				Quality: route.Quality}
		}
		out.Requests[i] = p
	}
	return out
}

// PredictRequestsFromProto translates requests back.
func PredictRequestsFromProto(req *proto.PredictRequest) []llm.PredictRequest {
	out := make([]llm.PredictRequest, len(req.GetRequests()))
	for i, p := range req.GetRequests() {
		r := llm.PredictRequest{Texts: TextsFromProto(p.GetTexts()), InputTokens: p.GetInputTokens(), Tools: p.GetTools()}
		for _, route := range p.GetRoutes() {
			r.Routes = append(r.Routes, llm.PredictRoute{Name: route.GetName(), Model: route.GetModel(),
				Quality: route.GetQuality()})
		}
		out[i] = r
	}
	return out
}

// PredictionsToProto translates predictions of these requests, or why there are none.
func PredictionsToProto(requests []llm.PredictRequest, predictions []llm.Prediction, err error) *proto.PredictResponse {
	if err == nil {
		err = CheckPredictions(requests, predictions)
	}
	if err != nil {
		return &proto.PredictResponse{Failure: FailureToProto(err)}
	}
	out := &proto.PredictResponse{Predictions: make([]*proto.Prediction, len(predictions))}
	for i, p := range predictions {
		out.Predictions[i] = &proto.Prediction{Qualities: p}
	}
	return out
}

// PredictionsFromProto translates predictions back. They are not checked.
func PredictionsFromProto(r *proto.PredictResponse) []llm.Prediction {
	out := make([]llm.Prediction, len(r.GetPredictions()))
	for i, p := range r.GetPredictions() {
		out[i] = p.GetQualities()
	}
	return out
}
