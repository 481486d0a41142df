package config

import (
	"slices"
	"strings"
)

// The language, block by block: what it accepts, what holds without it, and what it does. The decoder, its messages,
// `gateway schema` and the tables of README.md come from here. What is not here is unknown, and refused.

const (
	includeExample  = `include "routes/*.hcl"`
	variableExample = `variable "region" {
  default = "eu"
}`
	localsExample = `locals {
  cheap = 0.05
}`
	providerExample = `provider "local" {
  plugin = "echo"
}`
	priceExample = `price {
  input  = 0.05
  output = 0.20
}`
	costExample = `cost {
  input  = 0.04
  output = 0.16
}`
	tierExample = `above "272000" {
  input  = 0.10
  output = 0.30
}`
	perMinuteExample = `requests_per_minute {
  key     = 600
  account = 2400
  address = 6000
}`
	routeExample = `route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price {
    input  = 0.05
    output = 0.20
  }
}`
)

var fileGrammar = grammar{
	noun: "attribute",
	blocks: []blockRule{
		{name: "include", doc: "Puts what stands in other files here, sorted by path. It has no body.",
			label: "pattern of paths", many: true, example: includeExample},
		{name: "variable", doc: "What differs between the places where one configuration runs: `var.NAME`.",
			body: &variableGrammar, label: "name", many: true, example: variableExample},
		{name: "locals", doc: "Values with a name, to be written once: `local.NAME`. Its attributes are yours.",
			many: true, example: localsExample},
		{name: "gateway", doc: "The settings of the service as a whole.",
			body: &gatewayGrammar, example: "gateway {\n}"},
		{name: "store", bodies: map[string]*grammar{SQLite: &sqliteGrammar, Postgres: &postgresGrammar},
			doc:   "Where the ledger is: `sqlite` or `postgres`.",
			label: "kind", example: storeExample},
		{name: "limiter", doc: "Where requests are counted. The label is `memory`, or `redis` for several nodes.",
			bodies: map[string]*grammar{Memory: &limiterGrammar, RedisKind: &redisLimiterGrammar},
			label:  "kind", example: limiterExample},
		{name: "provider", doc: "A backend process.",
			body: &providerGrammar, label: "name", many: true, required: true, example: providerExample},
		{name: "route", doc: "An upstream model behind a provider.",
			body: &routeGrammar, label: "name", many: true, required: true, example: routeExample},
		{name: "special", bodies: map[string]*grammar{"graphics": &graphicsGrammar, "long_context": &longContextGrammar},
			doc:   "Which requests are of a specialty: `graphics` or `long_context`.",
			label: "specialty", many: true,
			example: "special \"graphics\" {\n  terms = [\"svg\", \"3d scene\"]\n}"},
		{name: "profile", doc: "The weights of cost against quality: `budget`, `balanced` or `max`.",
			body: &profileGrammar, label: "name", many: true,
			example: "profile \"budget\" {\n  cost    = 0.8\n  quality = 0.2\n}"},
		{name: "strategy", doc: "How several calls upstream make one reply. Without `when` it competes with the routes, " +
			"by what is expected of its parts; with it, the first one in the file that holds is used.",
			body: &strategyGrammar, label: "name", many: true, example: strategyExample},
		{name: "plan", doc: "What accounts can be on: their limits, and what they are given.",
			body: &planGrammar, label: "name", many: true, example: "plan \"starter\" {\n  monthly_credits = 500\n}"},
		{name: "pre_auth", doc: "What an address may do before any key is looked at.",
			body: &preAuthGrammar, example: "pre_auth {\n  failures_per_minute = 120\n}"},
		{name: "predictor", doc: "By which trained model the quality and the output of each route are predicted. Without " +
			"the block it is the one that is built in.", body: &predictorGrammar, example: predictorExample},
		{name: "affinity", doc: "Whether a conversation stays on its route.",
			body: &affinityGrammar, example: "affinity {\n  ttl = \"1h\"\n}"},
		{name: "telemetry", doc: "What OpenTelemetry is told beside the spans of Caddy's directive `tracing`. Where to, " +
			"the environment variables `OTEL_*` say. Without the block: the span of each attempt, and no metric.",
			body: &telemetryGrammar, example: "telemetry {\n  metrics = true\n}"},
		{name: "decision_log", doc: "For how long it is remembered how requests were routed.",
			body: &decisionLogGrammar, example: "decision_log {\n  keep = \"14d\"\n}"},
		{name: "outcomes", doc: "Keeps, to train by, how routes did at requests. Without the block nothing is kept.",
			body: &outcomesGrammar, example: outcomesExample},
		{name: "breaker", doc: "When a route is not called for a while. It holds for each route that has none of its own. " +
			"Without a block there is no breaker; an empty one has the defaults.",
			body: &breakerGrammar, example: breakerExample},
		{name: "retry_budget", doc: "How many requests are tried on another route. Without a block it has the defaults " +
			"where there is a `breaker`, and otherwise every request that fails is.",
			body: &retryBudgetGrammar, example: "retry_budget {\n  ratio = 0.2\n}"},
		{name: "screening", doc: "The content policy before routing: what of a request's text is refused or noted.",
			body: &screeningGrammar, example: screeningExample},
		{name: "cache", doc: "Keeps replies for requests that are sent again. The label is `memory`, or `redis` for " +
			"several nodes. Without the block there is none.",
			bodies: map[string]*grammar{Memory: &cacheGrammar, RedisKind: &redisCacheGrammar},
			label:  "kind", example: cacheExample},
		{name: "alerts", doc: "Whom the gateway tells of what somebody must hear of: by webhook, and by mail.",
			body: &alertsGrammar, example: alertsExample},
		{name: "portal", doc: "The pages for accounts and operators, at `/portal/` of the site. Without the block there " +
			"are none.", body: &portalGrammar, example: portalExample},
	},
}

var variableGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "default", kind: anything, example: `"eu"`,
			doc: "The value where the environment has none. A value from the environment is read as what this is: " +
				"text, a number, true or false; in JSON where it is a list or a map. It can use `env`, `file` and " +
				"functions, but no variables."},
		{name: "description", kind: aText(1024), example: `"where the upstreams are"`,
			doc: "What it is for."},
	},
}

var gatewayGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "namespace", kind: aText(64), fallback: `"service"`, example: `"service"`,
			doc: "The public models are `service/auto`, `service/budget` and so on, the profile header is " +
				"`x-service-profile`. Lower-case letters, digits, `-`; at most 32. Clients have it in their " +
				"settings: a change breaks them."},
		{name: "default_profile", kind: oneOf(ProfileNames()...), fallback: `"balanced"`, example: `"balanced"`,
			doc: "The profile of a request that names none: `budget`, `balanced` or `max`."},
		{name: "request_timeout", kind: aDuration(maxDuration), fallback: `"10m"`, example: `"10m"`,
			doc: "From the body read to the last byte of the last attempt."},
		{name: "max_body", kind: aSize, fallback: `"32MiB"`, example: `"32MiB"`,
			doc: "The largest request body."},
		{name: "max_body_memory", kind: aSize, fallback: `"1GiB"`, example: `"1GiB"`,
			doc: "All request bodies together, and the messages and tools that are made of them (512 bytes for each " +
				"JSON object); over it requests get 429. At least `max_body`. With the copies of the texts, and " +
				"until its garbage is collected, the process may take four times as much: keep it under a fifth of " +
				"the machine's memory."},
		{name: "max_streams", kind: anInteger(1, maxConcurrent), fallback: `10000`, example: "10000",
			doc: "How many charged requests may be in progress at the same time, streamed or not, over all accounts." +
				" One more gets 429 without headers. What a stream costs is in the manual; what clients left counts" +
				" until its upstream has ended."},
		{name: "keepalive", kind: aDuration(maxDuration), fallback: `"15s"`, example: `"15s"`,
			doc: "How long a stream may be silent before a keep-alive is sent. Longer than the idle limit of a proxy" +
				" in between, streams are cut."},
		{name: "drain_timeout", kind: aDuration(maxDuration), fallback: `"5m"`, example: `"5m"`,
			doc: "For live streams at exit, and for a replaced plugin. When it is over they end in an error."},
		{name: "plugin_dir", kind: aPath, fallback: `""`, example: `"plugins"`,
			doc: "The folder with `fareway-provider-NAME` files, relative to this file. Empty: built-in providers " +
				"only. Whoever can write there can run programs as the gateway."},
		{name: "structured_output", kind: aFlag, fallback: `false`, example: "true",
			doc: "Turns structured outputs on, in all three families. Off, `response_format` is refused, and the " +
				"fields of the other families are ignored. On, a request for JSON goes to a route that `offers` it," +
				" and is refused where there is none."},
		{name: "client_models", kind: aList, fallback: `[]`, example: `["my-agent"]`,
			doc: "Names that clients may send as `model`, beside the built-in list of what agents and client " +
				"libraries send on their own. Each is an exact name, or a regular expression from `^` to `$` for " +
				"names that end in a version or a date: `[\"my-agent\", \"^my-agent-\\\\d{8}$\"]`. They are routed like " +
				"`service/auto` and pin no model. Never with a slash. A loose pattern turns typing mistakes into " +
				"replies."},
		{name: "receipt_age", kind: aDuration(maxReceiptAge), fallback: `"24h"`, example: `"24h"`,
			doc: "How long an attempt that ended without proof of its usage waits for its provider's receipt. Then " +
				"it is closed and costs nothing, even if the upstream bills it."},
		{name: "client_stall", kind: aDuration(maxDuration), fallback: `"60s"`, example: `"60s"`,
			doc: "How long a client may take nothing of what is ready for it. Then it has left: its connection is " +
				"broken, its upstream is read to the end, and the work is charged. While it takes nothing, its " +
				"upstream is read on, up to 1 MiB a reply and 256 MiB in all; when that is full, it has five " +
				"seconds at most. Too short, readers that pause (a debugger, a laptop that sleeps) lose their " +
				"replies and pay for them."},
		{name: "request_log", kind: aDuration(maxRequestLog), fallback: `"7d"`, example: `"7d"`,
			doc: "How long `fareway gateway usage ID` finds a request that was refused before it was charged. The " +
				"log is bounded in size too: in a flood of refusals the oldest go first."},
	},
}

var sqliteGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{{name: "path", kind: aPath, fallback: `"fareway.db"`, example: `"fareway.db"`,
		doc: "The database file, relative to the data folder; an absolute path is refused."},
		{name: "durability", kind: oneOf(string(DurablePower), string(DurableProcess)), fallback: `"power"`,
			example: `"process"`,
			doc: "What a charge survives whose client has its reply. `\"power\"`: a power cut; each group of settlements " +
				"is on the disk before its replies end. `\"process\"`: the end of the gateway's process, also by " +
				"`kill -9`; it is on the disk within about a second, and a power cut (or a crash of the system) may take " +
				"what was charged, paid in and decided since. Nothing is damaged then, the start and `ledger verify` say what " +
				"is gone, as far as anything still tells, and it is booked on the audit trail. No request waits for the disk, " +
				"which pays where syncs take long: see below."},
	},
}

var postgresGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "dsn", kind: aText(4096), required: true, secret: true,
			example: `env("DATABASE_URL")`,
			doc: "The database, as libpq takes it: `postgres://user:password@host/database`, several hosts as " +
				"`postgres://user:password@one,two/database`. Nothing prints it. The user has to own the database, which is " +
				"fareway's alone; several gateways may share it."},
		{name: "standby", kind: oneOf(string(StandbyAny), string(StandbyRequired)), fallback: `"any"`,
			example: `"required"`,
			doc: "Whether charges need a synchronous standby. `\"any\"`: what they survive is as the server is set up; that " +
				"it stops to wait for its standbys is said in the log and in `status`. `\"required\"`: while it waits for none " +
				"(Patroni turns that off when the last standby goes, unless `synchronous_mode_strict` is on), charged requests " +
				"get 503, and what ends is kept in the node's spool."},
	},
}

var limiterGrammar = grammar{noun: "attribute"}

var redisLimiterGrammar = grammar{
	noun: "attribute",
	attributes: append(redisRules(), attributeRule{
		name: "nodes", kind: anInteger(1, maxNodes), fallback: `1`, example: "3",
		doc: "With how many nodes one reckons at least, while the server is away and before it was reached: each then " +
			"admits this part of each limit, or less where more nodes were there last. 1: a node that starts while " +
			"the server is away takes the limits for its own."}),
}

// maxNodes is far more than one service has.
const maxNodes = 10_000

const redisURLExample = `env("REDIS_URL")`

// redisRules are what blocks have that keep something in a Redis.
func redisRules() []attributeRule {
	return []attributeRule{
		{name: "url", kind: aText(4096), required: true, secret: true, example: redisURLExample,
			doc: "Where the server is, Redis 6.2 or Valkey at least: `redis://[[USER]:PASSWORD@]HOST:PORT[/DATABASE]`, " +
				"`rediss://` for TLS, `unix:///PATH[?db=DATABASE]` for a socket. Sentinels and nodes of a Cluster are several " +
				"`HOST:PORT` with commas between them. With a password it comes from `env` or `file`; of what it says only the " +
				"hosts are ever shown."},
		{name: "mode", kind: oneOf(redisModes...), fallback: `"single"`, example: `"sentinel"`,
			doc: "What is at the url: one server; Sentinels, which know where the server is; or nodes of a Cluster. With " +
				"replicas an answer is not waited for from them: a failover may lose the last moments of what was counted."},
		{name: "master", kind: aText(128), instead: "none", example: `"mymaster"`,
			doc: "What Sentinels call the server."},
		{name: "sentinel_password", kind: aText(4096), secret: true, instead: "none", example: `env("SENTINEL_PASSWORD")`,
			doc: "The password of the Sentinels, where they have one. The one of the url is the server's."},
		{name: "prefix", kind: aText(64), fallback: `"fareway:"`, example: `"fareway:"`,
			doc: "Begins all keys. Services that share a server and nothing else need different ones; the nodes of one " +
				"service have the same."},
		{name: "timeout", kind: aDuration(maxRedisTimeout), fallback: `"50ms"`, example: `"50ms"`,
			doc: "How long a question waits for its answer. Then the node decides by itself, and soon asks no more until the " +
				"server answers in time again."},
		{name: "ca", kind: aPEM, instead: "the system's", example: `file("redis-ca.pem")`,
			doc: "With `rediss://`, the certificate of the authority that has signed the server's."},
		{name: "certificate", kind: aPEM, instead: "none", example: `file("redis-client.pem")`,
			doc: "With `rediss://`, the gateway's own certificate, for a server that wants one (`tls-auth-clients`, which is " +
				"on unless it is turned off)."},
		{name: "private_key", kind: aPEM, secret: true, instead: "none", example: `file("redis-client.key")`,
			doc: "The key of `certificate`."},
	}
}

// aPEM is a certificate or a key.
var aPEM = kind{name: "PEM text, as by `file`", hcl: "string"}

const keyExample = "key \"main\" {\n  api_key = env(\"NAME\")\n}"

var providerGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "plugin", kind: aText(64), required: true, example: `"openai"`,
			doc: "The name of a built-in provider (`echo`, `openai`, `anthropic`, `gemini`, `responses`, `bedrock`, " +
				"`ollama`), or NAME of a file `fareway-provider-NAME` in `plugin_dir`. Must be written out, without `env` " +
				"or `file`."},
		{name: "sha256", kind: aDigest, example: `"<64 hex digits>"`,
			doc: "Pins the file in `plugin_dir`. Only a pinned file replaces a built-in provider. Without it, another " +
				"content of the file takes effect by itself, within two seconds: a new process takes over, and the old one " +
				"ends with its last request."},
		{name: "start_timeout", kind: aDuration(maxDuration), fallback: `"10s"`, example: `"10s"`,
			doc: "How long the process may take to start and answer."},
		{name: "carry", kind: oneOf(string(CarryHost), string(CarryProcess)), fallback: `"host"`, example: `"process"`,
			doc: "Who makes the upstream calls. `\"host\"`: the gateway itself, where the provider can say where calls" +
				" go (all built-in ones but `echo`, `ollama` and `bedrock`); a request then costs half, and replies " +
				"outlive the provider's process. `\"process\"`: the provider's process, so that all its traffic is " +
				"isolated there. A provider that carries traffic itself does so either way."},
		{name: "max_memory", kind: aSize, example: `"1GiB"`,
			doc: "The memory of its process and of what that starts, at least `\"16MiB\"`, without what they map of files, " +
				"such as their program; looked at each second, on Linux. A process that takes nine tenths of it before its " +
				"first request is refused: a built-in one takes some 15 MiB. From nine tenths of it on another process is " +
				"started and takes over, while the old one finishes its replies; beyond it the process is killed, and " +
				"replies that it carries break."},
	},
	blocks: []blockRule{
		{name: "config", example: "config {\n}", doc: "The plugin's own settings, checked against what it declares."},
		{name: "key", label: "name", many: true, example: keyExample, body: &keyGrammar,
			doc: "One of several credentials of the service, in place of the one in `config`: the plugin's secret settings " +
				"and a `weight`."},
		{name: "confine", example: confineExample, body: &confineGrammar, doc: "What its process may not do, on Linux."},
	},
}

const confineExample = `confine {
  user          = "fareway-plugins"
  max_files     = 1024
  max_processes = 256
}`

var confineGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "user", kind: aText(64), instead: "the gateway's own", example: `"fareway-plugins"`,
			doc: "The user that the process runs as, with the user's own group and no other; not root. Needs a gateway " +
				"that runs as root. The user must be able to read and run the plugin's file; for a built-in provider, the " +
				"gateway's own. Give it no files: the data folder is closed to it then."},
		{name: "max_files", kind: anInteger(minFiles, maxConfined), instead: "the gateway's limit", example: "1024",
			doc: "How many files and connections one of its processes may have open, at most what the gateway may. Each " +
				"call that it makes takes one or two."},
		{name: "max_processes", kind: anInteger(minProcesses, maxConfined), instead: "the gateway's limit", example: "256",
			doc: "How many processes and threads the user may have. Needs `user`, and counts all that runs as that user. A " +
				"provider in Go has about ten threads, in Node about fifteen."},
	},
}

// keyGrammar is what a key block has beside the plugin's own secret settings.
var keyGrammar = grammar{
	noun: "setting",
	attributes: []attributeRule{{name: weightSetting, kind: anInteger(1, maxKeyWeight), fallback: "1", example: "2",
		doc: "The key's share of the conversations, against the weights of the other keys."}},
}

var routeGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "provider", kind: aText(64), required: true, example: `"local"`,
			doc: "The provider that speaks to the model."},
		{name: "model", kind: aText(256), required: true, example: `"qwen3:4b"`,
			doc: "The model's name there. Clients never see it."},
		{name: "context_window", kind: anInteger(1, maxTokens), required: true, example: "32768",
			doc: "Prompt and reply together, in tokens. Larger than the truth, the upstream refuses long requests. Smaller, " +
				"some that would fit are kept away, and of a prompt that turns out longer no more than this is held and charged."},
		{name: "max_output", kind: anInteger(1, maxTokens), required: true, example: "8192",
			doc: "The longest reply, in tokens. Holds are sized by it when a client sets no limit."},
		{name: "quality", kind: aQuality, instead: "required, or as a block", example: "0.45",
			doc: "How good the model is compared with the other routes, on the requests that you have. For each request it " +
				"is corrected by how difficult that one is; a block says more. `\"auto\"`: as it was at " +
				"what the predictor's model file was trained on, or else as a public benchmark has measured the model, by kind " +
				"of work; of one that neither knows it is an error, which says what it is like."},
		{name: "reasons", kind: aFlag, fallback: `false`, example: "true",
			doc: "The model thinks before it answers. It is then expected to write six times as much, and a request with " +
				"an allowance under 1,024 tokens, which thoughts could use up, goes to another route where there is one."},
		{name: "offers", kind: aListOf(offerNames...), fallback: `[]`, example: `["tools", "json_object"]`,
			doc: "What the model can do beyond text: `\"tools\"`, `\"json_object\"`, `\"json_schema\"`. A request that " +
				"needs one is sent only to routes that offer it. With `json_schema` the model is known to enforce a" +
				" schema and gets it as the client sent it; with `json_object` alone it gets the schema in its " +
				"system instructions, and is asked for JSON. Formats are of use where `structured_output` of the gateway " +
				"block is on: elsewhere no request asks for one."},
		{name: "specialty", kind: aListOf(specialtyNames...), fallback: `[]`, example: `["graphics"]`,
			doc: "The requests that this route is kept for: `\"graphics\"`, `\"long_context\"` (see special). It serves " +
				"others only when no ordinary route could; an allowance below 4,096 tokens is raised to 4,096 on " +
				"it."},
		{name: "unsupported", kind: aListOf(unsupportedNames...), fallback: `[]`, example: `["stop", "temperature"]`,
			doc: "What of a request the upstream refuses, or drops without a word, beside what its provider and preset know " +
				"already. It is left out or said otherwise, and replies come back as the client expects them; what cannot be " +
				"said otherwise makes another route serve the request, or is 503 `feature_unavailable`. The names: " +
				restrictionDocs() + "."},
		{name: "finish_reasons", kind: aMap, fallback: `{}`, example: `{ eod = "stop" }`,
			doc: "Words with which this upstream ends a reply and which the gateway does not know, each `\"stop\"` " +
				"(whole), `\"length\"` (cut at the limit), `\"tool_calls\"` or `\"content_filter\"`: `{ eod = \"stop\" }`. " +
				"Capitals make no difference. A reply that ends in any other word, such as `error` or `abort`, has " +
				"failed: the client gets an error, and the work that the upstream reported is charged. Say `\"stop\"`" +
				" of a failure, and clients take half a reply for a whole one."},
		{name: "max_concurrent", kind: aConcurrency, fallback: `0`, example: "8",
			doc: "How many attempts may run at the same time, over all accounts; 0 for no limit; `\"auto\"`: as many as the " +
				"upstream does well with, found by how soon first tokens come and by what it refuses, 1 to 1,000 for each " +
				"gateway. A request goes to " +
				"another route when this one is full; when all routes that could take it are full, it gets 429. " +
				"Clients that left count until the upstream has ended."},
		{name: "metering", kind: oneOf(string(MeteringReported), string(MeteringEstimate)),
			fallback: `"reported"`, example: `"reported"`,
			doc: "`\"estimate\"` for an upstream that never reports usage: accounts are then charged by the gateway's " +
				"own estimate."},
		{name: "timeout", kind: aDuration(maxDuration), fallback: `"5m"`, example: `"5m"`,
			doc: "One attempt; `request_timeout` holds as well."},
		{name: "region", kind: aText(maxRegion), instead: "not said", example: `"eu"`,
			doc: "Where the upstream works on what it is sent, in a word of yours: what a plan `requires`, or an account. " +
				"Nothing checks it."},
		{name: "retention", kind: aRetention, instead: "not said", example: `"none"`,
			doc: "For how long the upstream keeps it: what a plan `requires`, or an account. Nothing checks it."},
		{name: "bills_past_allowance", kind: aFlag, fallback: `false`, example: "true",
			doc: "The upstream may bill more output than a request allows, as some do for hidden reasoning. Then " +
				"holds are sized by `max_output`, whatever the client's limit, so that no bill is larger than its " +
				"hold. Left out where it is true, what passes the hold is not charged: it is `over` in `usage`, and" +
				" yours."},
		{name: "template_tokens", kind: anInteger(0, maxTokens), instead: "learned", example: "1400",
			doc: "How many tokens the upstream's chat template adds to a prompt at most, beside what the client sent. They " +
				"count in holds, in the fit to `context_window`, and in estimates. Left out, it is learned from what the " +
				"upstream reports beyond the most that a prompt can have, up to 16,384 and a quarter of the window; what " +
				"passes a hold before that is not charged: it is `over` in `usage`, and yours."},
	},
	blocks: []blockRule{
		{name: "breaker", example: breakerExample, body: &breakerGrammar,
			doc: "When this route is not called for a while; what it leaves out is as in the block for all routes."},
		{name: "quality", example: qualityExample, body: &qualityGrammar,
			doc: "How good the model is by kind of work, in place of the attribute of that name."},
		{name: "price", doc: "US dollars per million tokens that the account pays. One with a day begins on it.",
			body: &priceGrammar, label: "first day", bare: true, many: true, required: true, late: true,
			example: priceExample},
		{name: "cost",
			doc: "What you pay the upstream, written like `price`; without it, the same. It is recorded with every " +
				"charge, for reports of the margin; no account ever sees it or pays it.",
			body: &costGrammar, label: "first day", bare: true, many: true, example: costExample},
	},
}

const qualityExample = `quality {
  default = 0.8
  code    = 0.9
}`

var qualityGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "default", kind: aQuality, required: true, example: "0.8",
			doc: "How good the model is at whatever the others do not say; `\"auto\"` says it for code and mathematics, too."},
		{name: KindCode, kind: aFraction, instead: "as `default`", example: "0.9",
			doc: "At reading and writing programs."},
		{name: KindMath, kind: aFraction, instead: "as `default`", example: "0.7",
			doc: "At mathematics, and at sums in words."},
		{name: KindTools, kind: aFraction, instead: "as `default`", example: "0.8",
			doc: "At calling tools."},
		{name: KindWriting, kind: aFraction, instead: "as `default`", example: "0.8",
			doc: "At writing to order: letters, essays, stories."},
		{name: "weight", kind: anInteger(1, maxWeight), instead: "they alone count", example: "40",
			doc: "As how many observations these numbers count beside what `gateway route train` has learned of a model of " +
				"this name, which counts as 100 where the text is familiar. Without effect on other models."},
		{name: "learn", kind: aFlag, instead: "as `true`", example: "false",
			doc: "Whether what comes of its requests (calls that are not valid, refusals, failures, prompts that are asked " +
				"again, `gateway route feedback`) changes what is expected of the route: `gateway route show` shows it."},
	},
}

// priceClasses are the attributes of each block of prices; the examples are those of these blocks.
func priceClasses(input, output, read, write string) []attributeRule {
	return []attributeRule{
		{name: "input", kind: aPrice, required: true, example: input,
			doc: "Prompt tokens that no cache served."},
		{name: "output", kind: aPrice, required: true, example: output,
			doc: "Reply tokens, reasoning included."},
		{name: "cache_read", kind: aPrice, instead: "as `input`", example: read,
			doc: "Prompt tokens that the upstream read from its cache."},
		{name: "cache_write", kind: aPrice, instead: "as `input`", example: write,
			doc: "Prompt tokens that the upstream wrote to its cache."},
	}
}

var (
	priceGrammar = grammar{noun: "attribute", attributes: priceClasses("0.05", "0.20", "0.01", "0.05"),
		blocks: []blockRule{tierRule}}
	costGrammar = grammar{noun: "attribute", attributes: priceClasses("0.04", "0.16", "0.008", "0.04"),
		blocks: []blockRule{tierRule}}
	tierGrammar = grammar{noun: "attribute", attributes: priceClasses("0.10", "0.30", "0.02", "0.10")}

	tierRule = blockRule{name: "above", label: "number of input tokens", many: true, example: tierExample,
		doc: "Prices of whole requests with at least so much input.", body: &tierGrammar}
)

var graphicsGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{{name: "terms", kind: aList, instead: "see below", example: `["svg", "3d scene"]`,
		doc: "Words and phrases, at most 200 of 64 bytes. One of them in the last text of the user is enough: in" +
			" any case, as a word of its own or with an `s`. `[]`: no request is for graphics."}},
}

var longContextGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{{name: "above", kind: anInteger(1, maxTokens), required: true, example: "100000",
		doc: "A request is long when its input and the allowance that the client gave are together more than " +
			"this."}},
}

var profileGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "cost", kind: aWeight, required: true, example: "0.5",
			doc: "How much cost counts when a route is chosen. Only its relation to the other weight matters. 0: cost does " +
				"not count, and the best route is first."},
		{name: "quality", kind: aWeight, required: true, example: "0.5",
			doc: "How much quality counts when a route is chosen. Only its relation to the other weight matters. 0: the " +
				"cheapest route is first. The route with the largest expected quality less rate x c is first: c is its " +
				"expected price as a share of the request's price on the dearest route, and the rate follows from both " +
				"weights and all routes, when the file is loaded."},
		{name: "keep_quality", kind: aShare, instead: "the weights decide", example: "0.98",
			doc: "The cheapest route is chosen whose expected quality is at least this share of the best one's, with a " +
				"margin (0 or more, calibrated on recorded answers) so that it is kept in truth; over 0. Behind it come the " +
				"others that keep it, by cost, and then the rest, by the weights."},
		{name: "hedge", kind: aHedge, instead: "never", example: `"p95"`,
			doc: "When the route that is called first has shown nothing for so long, the next one is called beside it. The " +
				"one that shows something first answers; the other is cancelled, and what it used is the operator's. `\"p95\"`: " +
				"later than 95 % of that route's first tokens, once there are enough to know."},
		{name: "hedge_share", kind: aShare, instead: "0.05, with `hedge`", example: "0.05",
			doc: "How large a share of the profile's requests is called for twice, at most."},
	},
	blocks: []blockRule{
		{name: "shadow", body: &shadowGrammar, example: shadowExample,
			doc: "Sends a share of the profile's requests to a second route as well, for comparison only and at your cost: " +
				"no account pays for it, and no reply waits for it."},
	},
}

const shadowExample = `shadow {
  route = "deep"
  share = 0.01
}`

var shadowGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "route", kind: aText(64), required: true, example: `"deep"`,
			doc: "The second route. It is called once a reply has ended, where it could have taken the request, too: with " +
				"what the account and its plan require, what the request needs, and while it works."},
		{name: "share", kind: aShare, required: true, example: "0.01",
			doc: "The share of the requests, over 0: 0.01 is one in a hundred. Which ones depends on their ids alone."},
	},
}

const strategyExample = `strategy "climb" {
  kind      = "cascade"
  steps     = ["small", "deep"]
  validator = "tool_arguments"
}`

var strategyGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "kind", kind: oneOf(strategyKindNames()...), required: true,
			example: `"cascade"`,
			doc: "`\"single\"`: the first of the `steps` that answers. `\"cascade\"`: each of the `steps` in turn until the " +
				"`validator` accepts a reply; that of the last one is the reply. `\"agree\"`: all `seats` at once; what more " +
				"than half of them say is the reply, otherwise that of the route `escalate`. `\"panel\"`: all `seats` at once, " +
				"and the route `judge` makes the reply of what they say. Every call is held for and charged; only the last " +
				"reply is shown as it comes."},
		{name: "when", kind: aCondition, instead: "it competes", example: `request.difficulty > 0.7 && profile == "max"`,
			doc: "For which requests, true or false: an expression over " + factsDoc + "; and over variables and locals. A " +
				"turn that answers tool calls stays on its route, whatever this says."},
		{name: "steps", kind: aList, instead: "of single and cascade", example: `["small", "deep"]`,
			doc: "Routes, in order."},
		{name: "seats", kind: aList, instead: "of agree and panel", example: `["small", "deep"]`,
			doc: "Routes that are called at the same time. One that fails is left out."},
		{name: "judge", kind: aText(64), instead: "of panel", example: `"deep"`,
			doc: "The route that reads the conversation and the replies of all seats, and answers. It needs room for them: " +
				"at least 1,024 tokens for each."},
		{name: "escalate", kind: aText(64), instead: "of agree", example: `"deep"`,
			doc: "The route that answers where the seats do not agree. If it is a seat, its reply is the one."},
		{name: "validator", kind: aText(64), instead: "of cascade: `\"non_empty\"`", example: `"tool_arguments"`,
			doc: "What accepts a reply: `\"non_empty\"`, `\"not_refusal\"`, `\"json\"`, `\"schema\"` (the request's), " +
				"`\"tool_arguments\"` (by the tool's schema), or a route that is asked whether the reply is good, and answers " +
				"yes or no."},
	},
}

var planGrammar = grammar{
	noun: "attribute",
	attributes: append([]attributeRule{
		{name: "default_profile", kind: oneOf(ProfileNames()...), instead: "the gateway's", example: "\"budget\"",
			doc: "The profile of requests that name none, of accounts without one of their own: `budget`, `balanced`" +
				" or `max`."},
		{name: "monthly_credits", kind: anInteger(0, maxCredits), fallback: `0`, example: "500",
			doc: "The allotment: added to the balance when a period begins, the first one too, and what is left " +
				"stays. It is added once a period, by the first of the account's plans that has one. A credit is " +
				"US$0.01."},
		{name: "periods", kind: aFlag, instead: "as `monthly_credits`", example: "true",
			doc: "`true`: months also without monthly credits, so that cap, budget and fair use begin anew. Left " +
				"out: where there are monthly credits."},
	}, limitRules("")...),
	blocks: []blockRule{
		{name: "requests_per_minute", body: &perMinuteGrammar, example: perMinuteExample,
			doc: "How many requests are answered in any 60 seconds; over it requests get 429."},
		{name: "requires", body: &requiresGrammar, example: requiresExample,
			doc: "What the routes of its accounts must be: no request can loosen it. A request that only other routes " +
				"could take gets 503. `gateway account set-requires` demands more for one account."},
		{name: "suspend_after_declines", body: &declinesGrammar, example: declinesExample,
			doc: "Suspends an account by itself. Without the block that never happens."},
	},
}

const declinesExample = `suspend_after_declines {
  count  = 20
  window = "1h"
}`

var declinesGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "count", kind: anInteger(1, maxDeclines), fallback: `20`, example: "20",
			doc: "How many of an account's requests a content policy may decline within the window: the screening, a route, " +
				"or a route in the middle of its reply. With the last of them the account is suspended, its requests get 403, " +
				"and the audit trail says so. `fareway gateway account activate NAME` reactivates it, and the count begins anew."},
		{name: "window", kind: aDuration(maxRequestLog), fallback: `"1h"`, example: `"1h"`,
			doc: "For how long a declined request counts."},
	},
}

const (
	maxDeclines = 10_000

	screeningExample = `screening {
  mode  = "monitor"
  rules = "policy.hcl"
}`
	ruleExample = `rule "weapons" {
  category = "violence"
  terms    = ["pipe bomb"]
}`
	cacheExample = `cache "memory" {
  size = "64MiB"
}`
)

var screeningGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "mode", kind: oneOf(string(ScreeningOff), string(ScreeningMonitor), string(ScreeningEnforce)),
			fallback: `"off"`, example: `"monitor"`,
			doc: "`\"monitor\"`: what the rules find is counted, and noted at the request. `\"enforce\"`: a request in which " +
				"a rule that blocks is found gets 400 before it is routed; each screened request, refused or not, then costs its " +
				"account 1,350 microcents. Begin with monitor: `fareway_screening_rules_total` shows what would be refused."},
		{name: "provider", kind: aText(64), instead: "nobody", example: `"local"`,
			doc: "A provider whose plugin can screen (`fareway gateway plugin info NAME` shows the capability `screen`). It " +
				"is sent the text of each request that the rules let through, and says allow, flag or block with categories. It " +
				"needs no route."},
		{name: "timeout", kind: aDuration(maxDuration), fallback: `"2s"`, example: `"2s"`,
			doc: "For how long the provider may judge a request, which waits for it in both modes."},
		{name: "on_error", kind: oneOf(string(OnErrorRefuse), string(OnErrorAllow)), fallback: `"refuse"`, example: `"allow"`,
			doc: "What comes of a request that the provider did not judge, in the mode enforce. `\"refuse\"`: it gets 500 and " +
				"costs nothing, so that all requests fail while the provider does. `\"allow\"`: it goes on with what the rules " +
				"say, and does not cost the 1,350 microcents; who can slow the provider down gets past it. " +
				"`fareway_screening_provider_seconds` counts both."},
		{name: "max_text", kind: aSize, fallback: `"1MiB"`, example: `"1MiB"`,
			doc: "How much text the provider is sent of one request. One with more is not judged: with " +
				"`on_error = \"refuse\"` it gets 413."},
		{name: "rules", kind: aPath, instead: "the rules in the block", example: `"policy.hcl"`,
			doc: "A file of `rule` blocks, relative to this file. Saving it is enough, as with this file."},
	},
	blocks: []blockRule{
		{name: "rule", label: "name", many: true, body: &ruleGrammar, example: ruleExample,
			doc: "What is looked for in all that the model would read: instructions, messages, tools, their calls and results." +
				" Rules stand here, or in the file that `rules` names. Case, look-alike letters and signs that nobody sees do " +
				"not count."},
	},
}

// rulesGrammar is that of a file of rules.
var rulesGrammar = grammar{noun: "attribute", blocks: screeningGrammar.blocks}

var ruleGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "category", kind: aText(64), instead: "none", example: `"violence"`,
			doc: "What the rule is about; it is noted with the rule's name. The text that was found never is."},
		{name: "action", kind: oneOf("block", "flag", "allow"), fallback: `"block"`, example: `"flag"`,
			doc: "`\"block\"`: the request is refused, when the mode is enforce. `\"flag\"`: it is noted only. `\"allow\"`: " +
				"what other rules find inside of what this one finds does not count, as \"bomb\" in \"bath bomb\": terms " +
				"inside of its terms, and patterns inside of its patterns."},
		{name: "terms", kind: aList, instead: "none", example: `["pipe bomb"]`,
			doc: "Words and phrases, up to 100,000 in all."},
		{name: "patterns", kind: aList, instead: "none", example: `["(?i)password[:=]"]`,
			doc: "Regular expressions of RE2, up to 1,000 in all, matched with the text as it is written, but for signs that " +
				"nobody sees; `(?i)` at the beginning for any case. One without a fixed " +
				"part of three letters or digits is slow, and may be refused."},
		{name: "whole_words", kind: aFlag, fallback: `true`, example: "false",
			doc: "`false`: terms are found inside of words, too."},
	},
}

var cacheGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "size", kind: aSize, fallback: `"64MiB"`, example: `"64MiB"`,
			doc: "All replies together, at least `\"1MiB\"`; those that were used longest ago go first. One reply has at most " +
				"a sixteenth of it."},
		{name: "ttl", kind: aDuration(maxDuration), fallback: `"5m"`, example: `"5m"`,
			doc: "For how long a reply is kept. A request is answered from it if the same account has sent the same, with the " +
				"same profile, and `temperature: 0`; nothing but the screening is charged then. Replies with tool calls are not " +
				"kept, nor those of accounts that demand `retention = \"none\"`, or whose plan does."},
	},
}

var redisCacheGrammar = grammar{
	noun:       "attribute",
	attributes: append(redisRules(), *cacheGrammar.rule("ttl")),
}

const requiresExample = `requires {
  region    = ["eu"]
  retention = "none"
}`

var requiresGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "region", kind: aList, instead: "wherever", example: `["eu"]`,
			doc: "One of these must be the route's `region`; one that says none is out."},
		{name: "retention", kind: aRetention, instead: "however long", example: `"none"`,
			doc: "The route's `retention` must be at most this; one that says none is out."},
	},
}

var perMinuteGrammar = grammar{noun: "attribute", attributes: limitRules("requests_per_minute")}

var preAuthGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{{name: "failures_per_minute",
		kind: anInteger(0, maxPerMinute), fallback: `120`, example: "120",
		doc: "Failed authentications (no key, or an unknown one) of one address in any 60 seconds. Over it, all " +
			"requests from there get 429, also those with a good key, and nobody can go on guessing. A proxy on" +
			" a unix socket has no address, and no limit of it. 0 for no limit."}},
}

const predictorExample = `predictor {
  model = "routes.model"
}`

var predictorGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "model", kind: aPath, instead: "the one that is built in", example: `"routes.model"`,
			doc: "A file that `fareway gateway route train` or `route calibrate` has written, relative to this file. Must be " +
				"written out, without `env` or `file`. Saving it is enough, as with this file: it is checked whole, and one that " +
				"cannot be used (cut short, of another version, of other routes) changes nothing. Whoever can change it decides " +
				"which routes requests go to, and so what they cost."},
		{name: "provider", kind: aText(64), instead: "nobody", example: `"local"`,
			doc: "A provider whose plugin predicts (`fareway gateway plugin info NAME` shows the capability `predict`): a " +
				"classifier of your own. It is asked how well each route would serve a request, where there are several. What it " +
				"does not know, or does not say in time, the model predicts. It needs no route."},
		{name: "deadline", kind: aDuration(maxPredicting), fallback: `"5ms"`, example: `"10ms"`,
			doc: "How long a request waits for the provider; while an answer is late, none waits for the next. " +
				"`fareway_predictor_seconds` shows how long it takes."},
		{name: "max_text", kind: aSize, fallback: `"16KiB"`, example: `"32KiB"`,
			doc: "How much of a conversation the provider is sent, from its end."},
	},
}

var affinityGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "mode", kind: oneOf(string(AffinityOn), string(AffinityOff)), fallback: `"on"`, example: `"off"`,
			doc: "`\"on\"`: a conversation stays on its route, unless another one is so much better or cheaper for its " +
				"turns to come that it outweighs a cold prompt cache, or the route cannot serve it. A turn that answers tool " +
				"calls always stays. `\"off\"`: every turn is chosen afresh."},
		{name: "ttl", kind: aDuration(maxRequestLog), fallback: `"1h"`, example: `"1h"`,
			doc: "How long a conversation is remembered after its last turn: as a hash, in memory, 100,000 of them."},
	},
}

var telemetryGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "metrics", kind: aFlag, fallback: "false", example: "true",
			doc: "Sends the metrics by OTLP: `gen_ai.client.token.usage`, `gen_ai.client.operation.duration` and " +
				"`gen_ai.client.operation.time_to_first_chunk` of each attempt, and all that Prometheus can scrape."},
		{name: "providers", kind: aFlag, fallback: "false", example: "true",
			doc: "Has the processes of providers send spans of their own, below those of attempts that they make. For that " +
				"they get the gateway's environment variables `OTEL_*`, and with them the collector's credential."},
		{name: "upstreams", kind: aFlag, fallback: "false", example: "true",
			doc: "Sends `traceparent` with each call, for upstreams that are yours and trace, too. Others learn which calls " +
				"belong together."},
		{name: "content", kind: aFlag, fallback: "false", example: "true",
			doc: "Puts prompts and replies into the spans of attempts (`gen_ai.input.messages`, `gen_ai.output.messages`), " +
				"up to 64 KiB each. Whoever can read the traces reads them."},
	},
}

var decisionLogGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "mode", kind: oneOf(string(DecisionsOn), string(DecisionsOff)), fallback: `"on"`, example: `"off"`,
			doc: "`\"on\"`: numbers that stand for each request, and what became of it, are kept beside the ledger, and " +
				"never its text, so that `gateway explain ID` and `gateway plan --since` can make its choice again. `\"off\"`: " +
				"nothing new is kept."},
		{name: "keep", kind: aDuration(maxDecisionAge), fallback: `"14d"`, example: `"14d"`,
			doc: "How long it is kept."},
		{name: "max_requests", kind: anInteger(1, maxDecisions), fallback: `1000000`, example: "1000000",
			doc: "How many requests are kept at most, at about 300 bytes each: the oldest go first."},
	},
}

const outcomesExample = `outcomes {
  keep = "90d"
}`

var outcomesGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "keep", kind: aDuration(maxDecisionAge), fallback: `"90d"`, example: `"90d"`,
			doc: "How long a line is kept at most. Nothing is kept of accounts that demand, or whose plan does, a retention " +
				"that is shorter."},
		{name: "max_size", kind: aSize, fallback: `"256MiB"`, example: `"256MiB"`,
			doc: "All lines together, at some 400 bytes each; the oldest go first. Texts have as much besides."},
		{name: "text", kind: aFlag, fallback: `false`, example: "true",
			doc: "Keeps what users wrote, too, up to 32 KiB of a request, in files of its own: with it a model can be trained " +
				"whole, and whoever reads the data folder reads your customers' requests. Tell them."},
		{name: "text_keep", kind: aDuration(maxDecisionAge), instead: "`\"14d\"`, with `text`", example: `"14d"`,
			doc: "How long a text is kept at most. None is kept of accounts that demand, or whose plan does, a retention that " +
				"is shorter."},
		{name: "train", kind: aText(5), instead: "never", example: `"03:00"`,
			doc: "At which time of day, in UTC, a process of low priority and at most 1 GiB teaches the predictor's model by " +
				"what is kept, as `route train --outcomes --if-better` does. What predicts held-out requests better than what " +
				"predicts now takes its place: the log, `gateway status` and `fareway_trainings_total` say so."},
	},
}

const breakerExample = `breaker {
  failures = 5
  open_for = "15s"
}`

var breakerGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "failures", kind: anInteger(0, maxBreakerFailures), fallback: `5`, example: "5",
			doc: "So many failed attempts in a row open a route's breaker (on a busy one that was well, twice as many); 0: " +
				"never. Open, the route is not called; where no other can serve, the client gets 503 at once. A request " +
				"that the upstream refuses for its form, length or content does not count, nor a client that left."},
		{name: "window", kind: aDuration(maxDuration), fallback: `"30s"`, example: `"30s"`,
			doc: "The time in which the failures count."},
		{name: "open_for", kind: aDuration(maxDuration), fallback: `"15s"`, example: `"15s"`,
			doc: "After this one small request at a time tries the route (4,000 tokens of input and of allowance; after as " +
				"long again, any). Answered, it closes the breaker; failed, the route is out for twice as long, up to 5 minutes."},
		{name: "outliers", kind: aFlag, fallback: `true`, example: "false",
			doc: "A route that fails more than the others, or whose first tokens come much later than they did while the " +
				"others' do not, is called where nothing else is left: for 30 seconds, then for longer, up to 5 minutes. At " +
				"most half of the routes are out at a time."},
		{name: "retry_after", kind: aFlag, fallback: `true`, example: "false",
			doc: "A route whose upstream says for how long it takes no more (`Retry-After` and the like) is passed over for " +
				"so long, up to 15 minutes; where no other can serve, the client gets 429. One whose upstream does not say, or " +
				"says that the quota is used up or the credential is no good, is called where nothing else is left. With keys " +
				"in the provider's block, each key has such a state of its own."},
	},
}

var retryBudgetGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "ratio", kind: aFraction, fallback: `0.2`, example: "0.2",
			doc: "How many fallbacks there may be for each request of the last 10 seconds, so that an outage is not doubled " +
				"by those who try again. Over it, clients get the first route's failure."},
		{name: "min_per_second", kind: anInteger(0, maxRetriesPerSecond), fallback: `10`, example: "10",
			doc: "How many there may be besides, for each of these seconds. 0 in both: no fallback."},
	},
}

// place is a grammar and where in the file it holds, as a message says it.
type place struct {
	where string
	*grammar
}

// places are the whole language outside of plugins' settings.
var places = []place{
	{"at the top of the file", &fileGrammar},
	{"in a variable block", &variableGrammar},
	{"in the gateway block", &gatewayGrammar},
	{"in store \"sqlite\"", &sqliteGrammar},
	{"in store \"postgres\"", &postgresGrammar},
	{"in a limiter \"memory\" block", &limiterGrammar},
	{"in a limiter \"redis\" block", &redisLimiterGrammar},
	{"in a provider block", &providerGrammar},
	{"in a key block of a provider", &keyGrammar},
	{"in the confine block of a provider", &confineGrammar},
	{"in a route block", &routeGrammar},
	{"in the quality block of a route", &qualityGrammar},
	{"in a price block", &priceGrammar},
	{"in a cost block", &costGrammar},
	{"in the above block of a price", &tierGrammar},
	{"in special \"graphics\"", &graphicsGrammar},
	{"in special \"long_context\"", &longContextGrammar},
	{"in a profile block", &profileGrammar},
	{"in the shadow block of a profile", &shadowGrammar},
	{"in a strategy block", &strategyGrammar},
	{"in a plan block", &planGrammar},
	{"in the requests_per_minute block of a plan", &perMinuteGrammar},
	{"in the requires block of a plan", &requiresGrammar},
	{"in the pre_auth block", &preAuthGrammar},
	{"in the predictor block", &predictorGrammar},
	{"in the affinity block", &affinityGrammar},
	{"in the telemetry block", &telemetryGrammar},
	{"in the decision_log block", &decisionLogGrammar},
	{"in the outcomes block", &outcomesGrammar},
	{"in a breaker block", &breakerGrammar},
	{"in the retry_budget block", &retryBudgetGrammar},
	{"in the screening block", &screeningGrammar},
	{"in a rule of the screening", &ruleGrammar},
	{"in a cache \"memory\" block", &cacheGrammar},
	{"in a cache \"redis\" block", &redisCacheGrammar},
	{"in the suspend_after_declines block of a plan", &declinesGrammar},
	{"in the alerts block", &alertsGrammar},
	{"in a webhook block of the alerts", &webhookGrammar},
	{"in a mail block of the alerts", &mailGrammar},
	{"in the portal block", &portalGrammar},
	{"in an oidc block of the portal", &oidcGrammar},
	{"in the stripe block of the portal", &stripeGrammar},
}

// elsewhere is where an attribute or a block that is unknown in g belongs, as a sentence, or "" when it is nowhere
// known. The names are those of the one or the other.
func (g *grammar) elsewhere(name string, names func(*grammar) []string) string {
	if !slices.ContainsFunc(places, func(p place) bool { return p.grammar == g }) {
		return "" // a plugin's settings have nothing to do with the rest of the file
	}
	var found []string
	for _, p := range places {
		if slices.Contains(names(p.grammar), name) {
			found = append(found, p.where)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return "It belongs " + strings.Join(found, ", or ") + "."
}
