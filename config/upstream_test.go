package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

const upstreamFile = `provider "up" {
  plugin = "openai"
  config {
    base_url = "http://h:1/v1"
    api_key  = env("SECRET_TOKEN")
  }
}
provider "plain" {
  plugin = "echo"
}
route "a" {
  provider       = "up"
  model          = "qwen3-4b"
  context_window = 32768
  max_output     = 1000
  quality        = 0.5
  price {
    input  = 1
    output = 1
  }
}
route "b" {
  provider       = "plain"
  model          = "m"
  context_window = 1000
  max_output     = 1000
  quality        = 0.5
  price {
    input  = 1
    output = 1
  }
}
`

// Bad input: an unreachable upstream, a model that it does not have and a window larger than its are
// reported with file, line, caret and next step; none of it refuses the file.
func TestAgainstUpstreams(t *testing.T) {
	t.Parallel()
	cfg, diags := loadText(t, upstreamFile)
	require.NoError(t, diags.Err())
	model := func(id string, window int64) Offer {
		return Offer{Models: []llm.Model{{ID: "x"}, {ID: id, ContextWindow: window}}}
	}
	fails := func(kind llm.ErrorKind, status int, message string) Offer {
		return Offer{Err: &llm.Error{Kind: kind, Status: status, Message: message}}
	}
	for name, c := range map[string]struct {
		offer Offer
		want  string // what is printed, "" for nothing
	}{
		"a server behind that is down": {fails(llm.ErrUpstream, 502, "no API answered"),
			`Warning: The upstream of provider "up" does not serve
  at FILE:4:16
    4 |     base_url = "http://h:1/v1"
      |                ^^^^^^^^^^^^^^^
  It answers 502. no API answered. It is asked again, and the routes serve as soon as it answers.
`},
		"as it is":          {model("qwen3-4b", 32768), ""},
		"a window not said": {model("qwen3-4b", 0), ""},
		"a larger window":   {model("qwen3-4b", 32769), ""},
		"a tag":             {model("qwen3-4b:latest", 0), ""},
		"a day":             {model("qwen3-4b-20260101", 0), ""},
		"a day with dashes": {model("qwen3-4b-2026-01-01", 0), ""},
		"no list":           {fails(llm.ErrRejected, 404, "no"), ""},
		"a list of its own": {fails(llm.ErrUpstream, 200, "no"), ""},
		"busy":              {fails(llm.ErrCapacity, 429, "no"), ""},
		"of nobody we know": {Offer{Err: errors.New("what?")}, ""},
		"a smaller window": {model("qwen3-4b", 8192), `Warning: context_window is larger than the upstream's
  at FILE:14:20
   14 |   context_window = 32768
      |                    ^^^^^
  It says 8192 tokens for this model, and refuses or cuts what is longer. Write context_window = 8192.
`},
		"a shorter reply": {Offer{Models: []llm.Model{{ID: "qwen3-4b", ContextWindow: 32768, MaxOutput: 400}}},
			`Warning: max_output is larger than the upstream's
  at FILE:15:20
   15 |   max_output     = 1000
      |                    ^^^^
  It says 400 tokens for this model, and refuses or cuts what is longer. Write max_output = 400.
`},
		"as long a reply": {Offer{Models: []llm.Model{{ID: "qwen3-4b", MaxOutput: 1000}}}, ""},
		"another model": {model("qwen3-8b", 0), `Warning: The upstream of provider "up" does not offer this model
  at FILE:13:20
   13 |   model          = "qwen3-4b"
      |                    ^^^^^^^^^^
  Requests to route "a" will probably fail. Did you mean "qwen3-8b"? ` + "`gateway models up` lists what there is.\n"},
		"a longer name": {model("qwen3-4b-instruct", 0),
			"Warning: The upstream of provider \"up\" does not offer this model\n"},
		"no model": {Offer{}, "Requests to route \"a\" will probably fail. `gateway models up` lists what there is.\n"},
		"away": {fails(llm.ErrUpstream, 0, "connecting: refused; check that it is running"),
			`Warning: The upstream of provider "up" does not answer
  at FILE:4:16
    4 |     base_url = "http://h:1/v1"
      |                ^^^^^^^^^^^^^^^
  connecting: refused; check that it is running. It is asked again, and the routes serve as soon as it answers.
`},
		"a page for people": {Offer{Err: &llm.Error{Kind: llm.ErrUpstream, Status: 200, Unreached: true,
			Message: "the upstream answered with a web page; check that base_url is the address of an API"}},
			`Warning: What answers for provider "up" is no API
  at FILE:4:16
    4 |     base_url = "http://h:1/v1"
      |                ^^^^^^^^^^^^^^^
  the upstream answered with a web page; check that base_url is the address of an API. Correct it, or requests to ` +
				"its routes fail.\n"},
		"a refused credential": {fails(llm.ErrCredentials, 401, "the key is wrong"),
			"Warning: The upstream of provider \"up\" refuses the credential\n  at FILE:5:16\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := cfg.Against(map[string]Offer{"up": c.offer}, false)
			require.NoError(t, found.Err())
			text := strings.ReplaceAll(printed(t, found), cfg.Path, "FILE")
			if c.want == "" {
				require.Empty(t, text)
			}
			require.Contains(t, text, c.want)
			requireNoSecret(t, cfg, found)
		})
	}
	require.Empty(t, cfg.Against(nil, true).All(), "who is not asked says nothing")
	require.Empty(t, new(Config).Against(map[string]Offer{"up": {}}, true).All())
	t.Run("who wants it compared is told what could not be", func(t *testing.T) {
		t.Parallel()
		found := cfg.Against(map[string]Offer{"up": fails(llm.ErrRejected, 404, "no")}, true)
		require.Contains(t, strings.ReplaceAll(printed(t, found), cfg.Path, "FILE"),
			`Warning: The upstream of provider "up" does not say what it offers
  at FILE:4:16
    4 |     base_url = "http://h:1/v1"
      |                ^^^^^^^^^^^^^^^
  It answers 404 where its list of models should be, so that its routes could not be compared with it. Some services `+
				"have none. If requests fail as well, the address is wrong: it may lack a part such as /v1.\n")
		require.Empty(t, cfg.Against(map[string]Offer{"up": {Err: errors.New("what?")}}, true).All())
	})
}

// Services know more names than they list.
func TestModelsByOtherNames(t *testing.T) {
	t.Parallel()
	models := []llm.Model{{ID: "maker/large", ContextWindow: 7}, {ID: "small-2603"}, {ID: "tiny:8b"}, {ID: "exact:1b"},
		{ID: "exact"}}
	for name, want := range map[string]string{"maker/large:nitro": "maker/large", "small-latest": "small-2603",
		"exact:1b": "exact:1b", "exact": "exact", "tiny": "", "tiny:7b": "", "other-latest": "", "small": "",
		"smal-latest": ""} {
		m, ok := offeredAs(models, name)
		require.Equal(t, want, m.ID, name)
		require.Equal(t, want != "", ok, name)
	}
}
