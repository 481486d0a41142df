package config

// The language, block by block. What each attribute means is in README.md; the reference file of the design names
// everything that is to come, and what is not here yet is unknown.

const (
	providerExample = `provider "local" {
  plugin = "echo"
}`
	priceExample = `price {
  input  = 0.05
  output = 0.20
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
		{name: "gateway", example: "gateway {\n}"},
		{name: "store", label: "kind", example: "store \"sqlite\" {\n  path = \"fareway.db\"\n}"},
		{name: "provider", label: "name", many: true, required: true, example: providerExample},
		{name: "route", label: "name", many: true, required: true, example: routeExample},
		{name: "special", label: "specialty", many: true, example: "special \"graphics\" {\n  terms = [\"svg\", \"3d scene\"]\n}"},
		{name: "profile", label: "name", many: true, example: "profile \"budget\" {\n  cost    = 0.8\n  quality = 0.2\n}"},
		{name: "plan", label: "name", many: true, example: "plan \"starter\" {\n  monthly_credits = 500\n}"},
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
		{name: "keepalive", example: `"15s"`},
		{name: "drain_timeout", example: `"5m"`},
		{name: "plugin_dir", example: `"plugins"`},
		{name: "structured_output", example: "true"},
		{name: "client_models", example: `["my-agent"]`},
	},
}

var storeGrammar = grammar{
	noun:       "attribute",
	attributes: []attributeRule{{name: "path", example: `"fareway.db"`}},
}

var providerGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "plugin", required: true, example: `"openai"`},
		{name: "sha256", example: `"<64 hex digits>"`},
		{name: "start_timeout", example: `"10s"`},
	},
	blocks: []blockRule{{name: "config", example: "config {\n}"}},
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
		{name: "max_concurrent", example: "8"},
		{name: "metering", example: `"reported"`},
		{name: "timeout", example: `"5m"`},
	},
	blocks: []blockRule{{name: "price", required: true, example: priceExample}},
}

var priceGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "input", required: true, example: "0.05"},
		{name: "output", required: true, example: "0.20"},
		{name: "cache_read", example: "0.01"},
		{name: "cache_write", example: "0.05"},
	},
}

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
	noun:       "attribute",
	attributes: []attributeRule{{name: "monthly_credits", example: "500"}},
}
