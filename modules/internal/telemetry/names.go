package telemetry

import "go.opentelemetry.io/otel/attribute"

// The names of OpenTelemetry's conventions for generative AI, all that there are in this repository. They are in
// development: these are of open-telemetry/semantic-conventions-genai (its own repository since May 2026), of spans by
// commit 002c8a6ea1c8a42b14a4527db83b3cabcded610a, docs/gen-ai/gen-ai-spans.md, and of metrics by commit 004902b8,
// docs/gen-ai/gen-ai-metrics.md. Its later v0.1.0 calls the metrics gen_ai.client.inference.*.
const (
	operationName  = attribute.Key("gen_ai.operation.name")
	providerName   = attribute.Key("gen_ai.provider.name")
	requestModel   = attribute.Key("gen_ai.request.model")
	requestStream  = attribute.Key("gen_ai.request.stream")
	requestTokens  = attribute.Key("gen_ai.request.max_tokens")
	responseModel  = attribute.Key("gen_ai.response.model")
	finishReasons  = attribute.Key("gen_ai.response.finish_reasons")
	firstChunk     = attribute.Key("gen_ai.response.time_to_first_chunk") // seconds
	inputTokens    = attribute.Key("gen_ai.usage.input_tokens")           // cached ones among them
	outputTokens   = attribute.Key("gen_ai.usage.output_tokens")          // reasoning among them
	cacheRead      = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	cacheCreation  = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	reasoning      = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	tokenType      = attribute.Key("gen_ai.token.type") // tokenInput, tokenOutput
	inputMessages  = attribute.Key("gen_ai.input.messages")
	outputMessages = attribute.Key("gen_ai.output.messages")
	errorType      = attribute.Key("error.type")

	operationChat = "chat"
	tokenInput    = "input"
	tokenOutput   = "output"

	metricUsage      = "gen_ai.client.token.usage"
	metricDuration   = "gen_ai.client.operation.duration"
	metricFirstChunk = "gen_ai.client.operation.time_to_first_chunk"
)

// Our own, on spans only: a request has many values.
const (
	RequestID    = attribute.Key("fareway.request.id")
	AccountName  = attribute.Key("fareway.account")
	RouteName    = attribute.Key("fareway.route")
	Microcents   = attribute.Key("fareway.microcents")
	EndpointName = attribute.Key("fareway.endpoint")

	attemptID  = attribute.Key("fareway.attempt.id")
	keyName    = attribute.Key("fareway.provider.key")
	upstreamID = attribute.Key("fareway.upstream_request.id")
)

// The buckets that the conventions name.
var (
	tokenBuckets = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216,
		67108864}
	durationBuckets   = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	firstChunkBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
)

// systems are what the conventions call the services behind plugins, and behind the presets of the plugin openai, where
// they have a name; others go by their own.
var systems = map[string]string{
	"openai": "openai", "anthropic": "anthropic", "bedrock": "aws.bedrock", "gemini": "gcp.gemini",
	"azure": "azure.ai.openai", "groq": "groq", "mistral": "mistral_ai", "deepseek": "deepseek",
	"moonshot": "moonshot_ai", "xai": "x_ai", "perplexity": "perplexity", "cohere": "cohere",
}

// System is what the conventions call the service behind a plugin with a preset, "" for none.
func System(plugin, preset string) string {
	name := plugin
	if preset != "" {
		name = preset
	}
	if known, ok := systems[name]; ok {
		return known
	}
	return name
}
