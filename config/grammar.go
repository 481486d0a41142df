package config

import (
	"slices"
	"strings"
)

// The language, block by block. What each attribute means is in README.md. What is not here is unknown, and refused.

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
		{name: "include", label: "pattern of paths", many: true, example: includeExample},
		{name: "variable", label: "name", many: true, example: variableExample},
		{name: "locals", many: true, example: localsExample},
		{name: "gateway", example: "gateway {\n}"},
		{name: "store", label: "kind", example: storeExample},
		{name: "limiter", label: "kind", example: limiterExample},
		{name: "provider", label: "name", many: true, required: true, example: providerExample},
		{name: "route", label: "name", many: true, required: true, example: routeExample},
		{name: "special", label: "specialty", many: true,
			example: "special \"graphics\" {\n  terms = [\"svg\", \"3d scene\"]\n}"},
		{name: "profile", label: "name", many: true, example: "profile \"budget\" {\n  cost    = 0.8\n  quality = 0.2\n}"},
		{name: "plan", label: "name", many: true, example: "plan \"starter\" {\n  monthly_credits = 500\n}"},
		{name: "pre_auth", example: "pre_auth {\n  failures_per_minute = 120\n}"},
	},
}

var variableGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "default", example: `"eu"`},
		{name: "description", example: `"where the upstreams are"`},
	},
}

var gatewayGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "namespace", example: `"service"`},
		{name: "default_profile", example: `"balanced"`},
		{name: "request_timeout", example: `"10m"`},
		{name: "max_body", example: `"32MiB"`},
		{name: "max_body_memory", example: `"1GiB"`},
		{name: "max_streams", example: "10000"},
		{name: "keepalive", example: `"15s"`},
		{name: "drain_timeout", example: `"5m"`},
		{name: "plugin_dir", example: `"plugins"`},
		{name: "structured_output", example: "true"},
		{name: "client_models", example: `["my-agent"]`},
		{name: "receipt_age", example: `"24h"`},
		{name: "client_stall", example: `"60s"`},
		{name: "request_log", example: `"7d"`},
	},
}

var storeGrammar = grammar{
	noun:       "attribute",
	attributes: []attributeRule{{name: "path", example: `"fareway.db"`}},
}

var limiterGrammar = grammar{noun: "attribute"}

const keyExample = "key \"main\" {\n  api_key = env(\"NAME\")\n}"

var providerGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "plugin", required: true, example: `"openai"`},
		{name: "sha256", example: `"<64 hex digits>"`},
		{name: "start_timeout", example: `"10s"`},
		{name: "carry", example: `"process"`},
		{name: "max_memory", example: `"1GiB"`},
	},
	blocks: []blockRule{
		{name: "config", example: "config {\n}"},
		{name: "key", label: "name", many: true, example: keyExample},
	},
}

var routeGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "provider", required: true, example: `"local"`},
		{name: "model", required: true, example: `"qwen3:4b"`},
		{name: "context_window", required: true, example: "32768"},
		{name: "max_output", required: true, example: "8192"},
		{name: "quality", required: true, example: "0.45"},
		{name: "offers", example: `["tools", "json_object"]`},
		{name: "specialty", example: `["graphics"]`},
		{name: "unsupported", example: `["stop", "temperature"]`},
		{name: "finish_reasons", example: `{ eod = "stop" }`},
		{name: "max_concurrent", example: "8"},
		{name: "metering", example: `"reported"`},
		{name: "timeout", example: `"5m"`},
		{name: "bills_past_allowance", example: "true"},
	},
	blocks: []blockRule{
		{name: "price", label: "first day", bare: true, many: true, required: true, example: priceExample},
		{name: "cost", label: "first day", bare: true, many: true, example: costExample},
	},
}

var priceGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "input", required: true, example: "0.05"},
		{name: "output", required: true, example: "0.20"},
		{name: "cache_read", example: "0.01"},
		{name: "cache_write", example: "0.05"},
	},
	blocks: []blockRule{tierRule},
}

var costGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "input", required: true, example: "0.04"},
		{name: "output", required: true, example: "0.16"},
		{name: "cache_read", example: "0.008"},
		{name: "cache_write", example: "0.04"},
	},
	blocks: []blockRule{tierRule},
}

var tierRule = blockRule{name: "above", label: "number of input tokens", many: true, example: tierExample}

var tierGrammar = grammar{noun: "attribute", attributes: priceGrammar.attributes}

var graphicsGrammar = grammar{
	noun:       "attribute",
	attributes: []attributeRule{{name: "terms", example: `["svg", "3d scene"]`}},
}

var longContextGrammar = grammar{
	noun:       "attribute",
	attributes: []attributeRule{{name: "above", required: true, example: "100000"}},
}

var profileGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "cost", required: true, example: "0.5"},
		{name: "quality", required: true, example: "0.5"},
	},
}

var planGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "default_profile", example: "\"budget\""},
		{name: "monthly_credits", example: "500"},
		{name: "periods", example: "true"},
		{name: "spend_cap_credits", example: "1000"},
		{name: "token_budget", example: "1000000"},
		{name: "fair_use_microcents", example: "10000000"},
		{name: "concurrent_requests", example: "8"},
	},
	blocks: []blockRule{{name: "requests_per_minute", example: perMinuteExample}},
}

var perMinuteGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "key", example: "600"},
		{name: "account", example: "2400"},
		{name: "address", example: "6000"},
	},
}

var preAuthGrammar = grammar{
	noun:       "attribute",
	attributes: []attributeRule{{name: "failures_per_minute", example: "120"}},
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
	{"in a store block", &storeGrammar},
	{"in a limiter block", &limiterGrammar},
	{"in a provider block", &providerGrammar},
	{"in a route block", &routeGrammar},
	{"in a price block", &priceGrammar},
	{"in a cost block", &costGrammar},
	{"in the above block of a price", &tierGrammar},
	{"in special \"graphics\"", &graphicsGrammar},
	{"in special \"long_context\"", &longContextGrammar},
	{"in a profile block", &profileGrammar},
	{"in a plan block", &planGrammar},
	{"in the requests_per_minute block of a plan", &perMinuteGrammar},
	{"in the pre_auth block", &preAuthGrammar},
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
