package predict

// Sample is a request of the reference workload, on which a configuration's profiles are given their rates (GAP-131):
// what a choice takes from a request, and no word of its text.
type Sample struct {
	Signal []byte  // what the model makes of it (Model.Pack)
	Share  float32 // of all requests, more than 0; the shares need not sum to 1
	Input  int32   // tokens of the prompt, at least 1
	Turns  int32   // of the assistant, so far
	Tools  bool    // it needs a route that offers tools
}
