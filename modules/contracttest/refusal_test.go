package contracttest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts that are images, as clients of the families write them.
const (
	imageURL   = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	inputImage = `{"type":"input_image","image_url":"https://x.example/a.png"}`
	imageBlock = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
)

// draft is a request in the making, to which faults are added.
type draft struct {
	path, key string
	header    []string
	members   []string
	parts     []string // of the user's message
	suffix    string   // after the body
	allowance int64
	credits   int64
	suspended bool
}

// fault is one thing that can be wrong with a request, and its answer.
type fault struct {
	name    string
	add     func(f *draft, sh shape)
	status  int
	code    string
	message string // a pattern that tells it from faults with the same code
}

// faults are in the order of GAP-01.
var faults = []fault{
	{"unknown path", func(f *draft, sh shape) { f.path = sh.Path + "/nothing" }, 404, "", "There is no POST"},
	{"no key", func(f *draft, _ shape) { f.key = "" }, 401, "authentication_error", ""},
	{"suspended account", func(f *draft, _ shape) { f.suspended = true }, 403, "permission_denied", ""},
	{"body too large", func(f *draft, _ shape) { f.members = append(f.members, `"pad":"`+strings.Repeat("x", 9<<10)+`"`) },
		413, "invalid_request_error", ""},
	{"invalid JSON", func(f *draft, _ shape) { f.suffix = "}" }, 400, "invalid_request_error", "JSON"},
	{"credential-like field", func(f *draft, _ shape) { f.members = append(f.members, `"api_key":"x"`) }, 400,
		"invalid_request_error", "api_key"},
	{"unaccepted model", func(f *draft, _ shape) { f.members = append(f.members, `"model":"openrouter/auto"`) }, 404,
		"model_not_found", ""},
	{"profile header", func(f *draft, _ shape) { f.header = append(f.header, "X-Service-Profile", "cheap") }, 400,
		"invalid_request_error", "profile header"},
	{"image part", func(f *draft, _ shape) { f.parts = append(f.parts, imageBlock) }, 400, "unsupported_content",
		"Image and audio"},
	{"field that is not offered", func(f *draft, sh shape) {
		switch sh.Name {
		case "chat":
			f.members = append(f.members, `"n":2`)
		case "responses":
			f.members = append(f.members, `"store":true`)
		default:
			f.parts = append(f.parts, `{"type":"document","source":{"type":"text","data":"x"}}`)
		}
	}, 400, "unsupported_field", ""},
	{"17 stop sequences", func(f *draft, _ shape) {
		stops := `["` + strings.Repeat(`x","`, 16) + `x"]`
		f.members = append(f.members, `"stop":`+stops, `"stop_sequences":`+stops)
	}, 400, "invalid_request_error", "stop"},
	{"no credits", func(f *draft, _ shape) { f.credits = 0 }, 402, "budget_exceeded", ""},
	{"too large for every window", func(f *draft, _ shape) { f.allowance = 10_000_000 }, 503, "feature_unavailable", ""},
	{"too few credits", func(f *draft, _ shape) {
		f.credits = min(f.credits, 1)
		f.allowance = max(f.allowance, 60_000)
	}, 402, "budget_exceeded", ""},
}

// send makes a caller for the request and sends it; it returns the caller too.
func (f *draft) send(t testing.TB, g *scripted, sh shape, mode string) (*caller, answer) {
	t.Helper()
	c := g.caller(t, f.credits)
	if f.suspended {
		c.SetState("suspended")
	}
	text := map[string]string{"chat": "text", "responses": "input_text", "messages": "text"}[sh.Name]
	list := map[string]string{"chat": "messages", "responses": "input", "messages": "messages"}[sh.Name]
	parts := append([]string{`{"type":"` + text + `","text":"PROMPT"}`}, f.parts...)
	members := append([]string{quote(list) + `:[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]`,
		allowance(sh, f.allowance), mode}, f.members...)
	header := f.header
	if f.key == "" {
		header = append(slices.Clone(header), "Authorization", "")
	}
	return c, c.Post(f.path, sh.Body("PROMPT", members...)+f.suffix, header...)
}

// requireFault sends a request with faults and checks that the first of them is its answer, free of charge.
func requireFault(t *testing.T, g *scripted, sh shape, list ...fault) {
	t.Helper()
	for _, mode := range modes {
		f := &draft{path: sh.Path, key: "good", allowance: 100, credits: 1_000_000}
		for _, fault := range list {
			fault.add(f, sh)
		}
		c, a := f.send(t, g, sh, mode.Field)
		code := list[0].code
		if code == "" {
			code = unknownPath(sh)
		}
		requireError(t, sh, a, list[0].status, code)
		require.Regexp(t, list[0].message, a.At(t, "error", "message"))
		c.RequireUntouched(t)
	}
}

// TestFirstFaultWins is GAP-01, GAP-43 and E28: of any two faults in one request the earlier one answers, and so it
// is when a request has all of them.
func TestFirstFaultWins(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `max_body = "8KiB"`})
	clauses := map[string]string{
		"no key": "AUTH-10", "suspended account": "AUTH-14", "body too large": "HTTP-03", "invalid JSON": "HTTP-02",
		"credential-like field": "AUTH-16", "unaccepted model": "MODEL-19 MODEL-20", "profile header": "PROF-20",
		"image part": "MEDIA-01 MEDIA-14", "field that is not offered": "ERR-13", "17 stop sequences": "STOP-20 STOP-21",
		"no credits": "BILL-13 BILL-15", "too large for every window": "ALLOW-05 ERR-30",
		"too few credits": "BILL-14 BILL-15",
	}
	for _, sh := range shapes {
		for i, first := range faults {
			t.Run(fmt.Sprintf("GAP-01 %s %s before all later faults, %s", clauses[first.name], first.name, sh.Name),
				func(t *testing.T) {
					t.Parallel()
					requireFault(t, g, sh, first)
					for _, second := range faults[i+1:] {
						requireFault(t, g, sh, first, second)
					}
					requireFault(t, g, sh, faults[i:]...)
				})
		}
		t.Run("BILL-15 without a fault, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range modes {
				_, a := (&draft{path: sh.Path, key: "good", allowance: 100, credits: 1_000_000}).send(t, g, sh, mode.Field)
				require.Equal(t, "Hello", outcomeOf(t, sh, a).Text)
			}
		})
	}
	t.Run("E28 AUTH-13 MEDIA-06 MEDIA-08 MEDIA-09 the rest of the table", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		requireError(t, shapeOf("chat"), c.Get("/v1/models", "Authorization", "", "X-Api-Key", c.Key), 401,
			"authentication_error")
		c.Revoke()
		c.SetState("suspended")
		requirePassing(t, shapeOf("chat"), c.Ask(shapeOf("chat"), `"model":"x"`), 401, "authentication_error")
		rich := g.rich(t)
		for family, members := range map[string]string{
			"chat":      `"messages":[{"role":"tool","content":[` + imageURL + `]}]`,
			"responses": `"input":[{"type":"function_call_output","output":[` + inputImage + `]}]`,
			"messages":  `"messages":[{"role":"user","content":[{"type":"tool_result","content":[` + imageBlock + `]}]}]`,
		} {
			requireError(t, shapeOf(family), rich.Ask(shapeOf(family), members), 400, "unsupported_content")
		}
		rich.RequireUntouched(t)
	})
}

// TestErrorBodies is E29: the bytes of error replies.
func TestErrorBodies(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const media = "Image and audio input are not supported yet. Send text only."
	for _, tc := range []struct {
		clauses        string
		status         int
		send           func(c *caller, sh shape) answer
		chat, messages string // MESSAGE stands for any text
	}{
		{"ERR-01 ERR-02 ERR-03 ERR-04 ERR-05 ERR-15", 401, func(c *caller, sh shape) answer {
			return c.Post(sh.Path, sh.Body("PROMPT"), "Authorization", "")
		}, `{"error":{"code":"authentication_error","message":"MESSAGE","type":"authentication_error"}}`,
			`{"type":"error","error":{"type":"authentication_error","message":"MESSAGE"}}`},
		{"ERR-01 ERR-03 ERR-04 ERR-05 ERR-16 BILL-32", 402, func(c *caller, sh shape) answer {
			own := c.gateway.caller(c.t, 0)
			return own.Ask(sh)
		}, `{"error":{"code":"budget_exceeded","message":"MESSAGE","type":"budget_exceeded"}}`,
			`{"type":"error","error":{"type":"budget_exceeded","message":"MESSAGE"}}`},
		{"ERR-03 ERR-05 ERR-20", 403, func(c *caller, sh shape) answer {
			own := c.gateway.rich(c.t)
			own.SetState("inactive")
			return own.Ask(sh)
		}, `{"error":{"code":"permission_denied","message":"MESSAGE","type":"permission_denied"}}`,
			`{"type":"error","error":{"type":"permission_denied","message":"MESSAGE"}}`},
		{"ERR-04 ERR-07 ERR-08 ERR-21", 404, func(c *caller, sh shape) answer { return c.Ask(sh, `"model":"x"`) },
			`{"error":{"code":"model_not_found","message":"MESSAGE","type":"invalid_request_error","param":"model"}}`,
			`{"type":"error","error":{"type":"not_found_error","message":"MESSAGE"}}`},
		{"ERR-04 ERR-06 ERR-14 MEDIA-11 MEDIA-12 MEDIA-13", 400, func(c *caller, sh shape) answer {
			list := map[string]string{"chat": "messages", "responses": "input", "messages": "messages"}[sh.Name]
			return c.Ask(sh, quote(list)+`:[{"role":"user","content":[`+imageBlock+`]}]`)
		}, `{"error":{"code":"unsupported_content","message":"` + media + `","type":"invalid_request_error"}}`,
			`{"type":"error","error":{"type":"invalid_request_error","message":"` + media + `"}}`},
		{"ERR-03 ERR-04 ERR-05 ERR-13", 400, func(c *caller, sh shape) answer {
			list := map[string]string{"chat": "messages", "responses": "input", "messages": "messages"}[sh.Name]
			return c.Ask(sh, quote(list)+`:[{"role":"user","content":[{"type":"document"},{"type":"input_file"}]}]`)
		}, `{"error":{"code":"unsupported_field","message":"MESSAGE","type":"unsupported_field"}}`,
			`{"type":"error","error":{"type":"unsupported_field","message":"MESSAGE"}}`},
		{"ERR-03 ERR-05 ERR-30", 503, func(c *caller, sh shape) answer { return c.Ask(sh, allowance(sh, 10_000_000)) },
			`{"error":{"code":"feature_unavailable","message":"MESSAGE","type":"feature_unavailable"}}`,
			`{"type":"error","error":{"type":"feature_unavailable","message":"MESSAGE"}}`},
	} {
		for _, sh := range shapes {
			t.Run(fmt.Sprintf("%s %d %s", tc.clauses, tc.status, sh.Name), func(t *testing.T) {
				t.Parallel()
				a := tc.send(g.rich(t), sh)
				require.Equal(t, tc.status, a.StatusCode)
				want := tc.chat
				if sh.Name == "messages" {
					want = tc.messages
				}
				pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "MESSAGE", `[^\\]+(\\"[^\\]+)*`)
				require.Regexp(t, "^"+pattern+"$", string(a.Raw))
				final := ""
				if tc.status != 402 && tc.status != 403 {
					final = "false"
				}
				require.Equal(t, final, a.Header.Get("X-Should-Retry"))
			})
		}
	}
}
