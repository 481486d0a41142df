package verify

import "fmt"

// gateKind names a configuration that ops checks run on.
type gateKind string

const (
	standardGate gateKind = "standard" // one route, the standard one
	profileGate  gateKind = "profiles" // cheap, middle and dear, with windows of their own
	hastyGate    gateKind = "hasty"    // small limits, structured output on, and a route that offers nothing
	strictGate   gateKind = "strict"   // structured output on, and a route that enforces schemas
	schemaGate   gateKind = "schema"   // the same with a route that offers schemas and nothing else
	objectGate   gateKind = "object"   // the same with a route that is asked for JSON only
	// routes for graphics and for long requests beside a small one; the default profile is max
	specialGate gateKind = "special"
	windowGate  gateKind = "windows" // a narrow route, and a wide one that is the second choice
	singleGate  gateKind = "single"  // frequent keep-alives, and a route that takes one request at a time
	limitsGate  gateKind = "limits"  // plans with one limit each, and few failed authentications
	slowGate    gateKind = "slow"    // the same
	// plans with one limit of money each, and two routes on which a token out costs a microcent
	capsGate  gateKind = "caps"
	exactGate gateKind = "exact" // one such route, which takes nothing for a token in, and the same plans
	pastGate  gateKind = "past"  // the standard route, which can bill past the allowance
	laterGate gateKind = "later" // the standard route of a provider that proves later what it used
	// the standard route, with screening that enforces or monitors, and a response cache
	policyGate  gateKind = "policy"
	monitorGate gateKind = "monitor"
	panelGate   gateKind = "panel" // every reply is that of a panel
)

// Prices of the standard route, in microcents a token ($3 and $15 a million), and its limits in tokens.
const (
	inputPrice, outputPrice       = 300, 1500
	standardWindow, standardLimit = 200_000, 64_000
	narrowWindow, wideWindow      = 10_000, 40_000
)

// unlimited is the plan of the run's own accounts: a run sends more in a minute than people do.
const unlimited = `
plan "trial" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
}
`

// gateRoute is a route block; the zero values are the standard route's.
type gateRoute struct {
	name          string
	window, limit int
	quality       float64
	input, output float64 // US dollars for a million tokens; free for none
	offers        string  // HCL
	more          string  // more attributes
}

// free is the price of what costs nothing.
const free = -1

func (r gateRoute) hcl() string {
	or := func(n, fallback float64) float64 {
		if n == 0 {
			return fallback
		}
		return max(n, 0)
	}
	return fmt.Sprintf(`
route %[1]q {
  provider       = "up"
  model          = %[1]q
  context_window = %[2]g
  max_output     = %[3]g
  quality        = %[4]g
  offers         = [%[5]s]
  %[6]s
  price {
    input  = %[7]g
    output = %[8]g
  }
}
`, r.name, or(float64(r.window), standardWindow), or(float64(r.limit), standardLimit), or(r.quality, 0.5), r.offers,
		r.more,
		or(r.input, 3), or(r.output, 15))
}

// carriedBy is who makes the upstream calls of all gates but singleGate, "" for the default: tests try both ways.
var carriedBy string

// upProvider is the provider block of nearly all gates. On the gate where checks end the provider's process, traffic
// is in that process; on the others the gateway carries it.
func (k gateKind) upProvider(base string) string {
	way, carry := carriedBy, ""
	if k == singleGate {
		way = "process"
	}
	if way != "" {
		carry = fmt.Sprintf(" carry = %q\n", way)
	}
	return fmt.Sprintf("provider \"up\" {\n plugin = \"openai\"\n start_timeout = \"1m\"\n"+
		"%s config {\n base_url = %q\n }\n}\n", carry, base)
}

// profilesHCL makes the profile alone decide among cheap, middle and dear, whatever is asked: balanced, which has its
// default, takes what is nearly as good as the best for a tenth of its price.
const profilesHCL = "profile \"budget\" {\n cost = 1\n quality = 0\n}\nprofile \"max\" {\n cost = 0\n quality = 1\n}\n"

// hcl is the kind's configuration over this provider block.
func (k gateKind) hcl(provider string) string {
	const tools = `"tools"`
	settings := ""
	routes := []gateRoute{{name: "standard", offers: tools}}
	switch k {
	case profileGate:
		routes = []gateRoute{
			{name: "cheap", window: 32_000, limit: 16_000, quality: 0.001, input: 0.1, output: 0.5, offers: tools},
			{name: "middle", quality: 0.9, input: 1, output: 5, offers: tools},
			{name: "dear", window: 128_000, quality: 1, input: 10, output: 50, offers: tools},
		}
	case hastyGate:
		settings = "request_timeout = \"1s\"\n keepalive = \"200ms\"\n max_body = \"16KiB\"\n structured_output = true"
		routes = []gateRoute{{name: "bare"}}
	case strictGate:
		settings = "structured_output = true"
		routes = []gateRoute{{name: "strict", offers: `"tools", "json_object", "json_schema"`}}
	case schemaGate:
		settings = "structured_output = true"
		routes = []gateRoute{{name: "schema", offers: `"json_schema"`}}
	case objectGate:
		settings = "structured_output = true"
		routes = []gateRoute{{name: "object", offers: `"tools", "json_object"`}}
	case panelGate:
		routes = []gateRoute{{name: "one", offers: tools}, {name: "two", offers: tools},
			{name: "judge", quality: 0.9, offers: tools}}
	case windowGate:
		routes = []gateRoute{
			{name: "narrow", window: narrowWindow, limit: 8192, quality: 0.9, offers: tools},
			{name: "wide", window: wideWindow, quality: 0.3, offers: tools},
		}
	case capsGate:
		exact := gateRoute{window: 100_000_000, limit: 50_000_000, input: 1e-6, output: 0.01, offers: tools}
		first, second := exact, exact
		first.name, first.quality = "first", 0.9
		second.name, second.quality = "second", 0.1
		routes = []gateRoute{first, second}
	case exactGate:
		routes = []gateRoute{{name: "exact", window: 100_000_000, limit: 50_000_000, input: free, output: 0.01,
			offers: tools}}
	case pastGate:
		routes[0].more = "bills_past_allowance = true"
	case laterGate:
		settings = "keepalive = \"100ms\"\n plugin_dir = \"plugins\""
	case singleGate:
		settings = `keepalive = "100ms"`
		routes[0].more = "max_concurrent = 1"
	case specialGate:
		settings = `default_profile = "max"`
		routes = []gateRoute{
			{name: "small", window: 20_000, limit: 8192, offers: tools},
			{name: "graphics", window: 100_000, limit: 8192, offers: tools, more: `specialty = ["graphics"]`},
			{name: "long", window: 100_000, limit: 8192, offers: tools, more: `specialty = ["long_context"]`},
		}
	}
	text := fmt.Sprintf("gateway {\n %s\n}\n", settings) + provider + unlimited
	if k != limitsGate && k != slowGate {
		text += "pre_auth {\n failures_per_minute = 0\n}\n"
	}
	switch k {
	case profileGate:
		text += profilesHCL
	case limitsGate, slowGate:
		text += limitsHCL
	case capsGate, exactGate:
		text += capsHCL
	case policyGate:
		text += policyHCL("enforce")
	case panelGate:
		text += panelHCL
	case monitorGate:
		text += policyHCL("monitor")
	}
	for _, r := range routes {
		text += r.hcl()
	}
	return text
}
