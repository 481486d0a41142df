package llm

// PredictRequest is a request that several routes could take, for a Predictor to compare them.
type PredictRequest struct {
	// Texts are what a model would read last, in the order of the request, none of them empty: from the end of the
	// conversation as much as the operator's max_text allows. The first of them may have lost its beginning.
	Texts []ScreenText
	// InputTokens is how long the whole prompt is, as the gateway estimates it.
	InputTokens int64
	// Tools says that tools are declared, or were called before.
	Tools  bool
	Routes []PredictRoute // two or more
}

// PredictRoute is a route of the operator's file.
type PredictRoute struct {
	Name    string
	Model   string  // the upstream's name of it
	Quality float64 // what the operator says of it, 0 to 1
}

// Prediction is, for each route of a request in their order, how likely its reply serves, 0 to 1, and Unknown where
// that is not known. nil: nothing is known of the request.
type Prediction []float64

// Unknown is the quality of a route of which nothing is known.
const Unknown = -1.0
