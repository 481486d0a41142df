package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
)

// connection is what a client is pointed at.
type connection struct {
	url    string // "http://127.0.0.1:8484", without a slash at the end
	key    string
	family string // chat, responses or messages
}

// api is what clients of OpenAI's kind, and some others, want as their base URL.
func (c connection) api() string { return c.url + "/v1" }

// connectModel is the public model: routing decides what answers.
const connectModel = "service/auto"

// connector says how one client is pointed at a gateway.
type connector struct {
	name     string
	title    string
	families []string // that work, the best one first
	// env are variables that the client reads, where it has no file for them.
	env func(c connection) map[string]string
	// file is the client's settings file.
	file func(c connection) connectFile
	// start is the command that starts the client with them.
	start string
	note  string // what else there is to know, "" for nothing
}

// connectFile is a file of a client's settings.
type connectFile struct {
	path string // below the home folder
	// folderVar is the variable that names another folder for it, and folder what that replaces of path.
	folderVar, folder string
	// merge are settings to set in a JSON file that may hold others; nil when the file is the gateway's own.
	merge map[string]any
	whole string
}

// connectors is in step with examples/clients, which runs each of these clients with the file that is written
// here, or with the variables.
var connectors = []connector{
	{
		name: "anthropic", title: "Anthropic's libraries", families: []string{"messages"},
		env: func(c connection) map[string]string {
			return map[string]string{"ANTHROPIC_BASE_URL": c.url, "ANTHROPIC_AUTH_TOKEN": c.key}
		},
		note: "The model is " + connectModel + ".",
	},
	{
		name: "claude", title: "Claude Code", families: []string{"messages"}, start: "claude",
		file: func(c connection) connectFile {
			return connectFile{path: ".claude/settings.json", folderVar: "CLAUDE_CONFIG_DIR", folder: ".claude",
				merge: map[string]any{"env": map[string]any{
					"ANTHROPIC_BASE_URL": c.url, "ANTHROPIC_AUTH_TOKEN": c.key, "ANTHROPIC_MODEL": connectModel,
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
				}}}
		},
		note: "Its web search runs at the model's own service, which the gateway does not offer.",
	},
	{
		name: "cline", title: "Cline", families: []string{"chat", "messages"}, start: "cline",
		file: clineFile,
		note: "Its OpenAI provider (responses) always offers an image tool of OpenAI's own, which the gateway refuses.",
	},
	{
		name: "codex", title: "Codex", families: []string{"responses"}, start: "codex --profile fareway",
		file: codexFile,
		note: "Web search and sub-agents are off, for they are tools that run elsewhere, which the gateway refuses.",
	},
	{
		name: "openai", title: "OpenAI's libraries, and what is built on them", families: []string{"chat", "responses"},
		env: func(c connection) map[string]string {
			return map[string]string{"OPENAI_BASE_URL": c.api(), "OPENAI_API_KEY": c.key}
		},
		note: "The model is " + connectModel + ".",
	},
	{
		name: "opencode", title: "OpenCode", families: []string{"chat", "responses", "messages"},
		start: "opencode --model fareway/" + connectModel, file: openCodeFile,
	},
	{
		name: "qwen", title: "Qwen Code", families: []string{"chat", "messages"}, start: "qwen",
		file: qwenFile,
	},
}

func clineFile(c connection) connectFile {
	provider := map[string]string{"chat": "openai-compatible", "messages": "anthropic"}[c.family]
	return connectFile{path: ".cline/data/settings/providers.json", merge: map[string]any{
		"version": 1, "lastUsedProvider": provider,
		"providers": map[string]any{provider: map[string]any{
			"settings":  map[string]any{"provider": provider, "apiKey": c.key, "model": connectModel, "baseUrl": c.api()},
			"updatedAt": "2026-11-20T00:00:00Z", "tokenSource": "manual", // it drops an entry without them
		}},
	}}
}

// codexFile is a profile, a file of its own that Codex lays over its configuration.
func codexFile(c connection) connectFile {
	return connectFile{path: ".codex/fareway.config.toml", folderVar: "CODEX_HOME", folder: ".codex",
		whole: fmt.Sprintf(`model = %q
model_provider = "fareway"
web_search = "disabled"

[agents]
enabled = false

[model_providers.fareway]
name = "Fareway"
base_url = %q
wire_api = "responses"
experimental_bearer_token = %q
`, connectModel, c.api(), c.key)}
}

func openCodeFile(c connection) connectFile {
	library := map[string]string{"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}[c.family]
	return connectFile{path: ".config/opencode/opencode.json", folderVar: "XDG_CONFIG_HOME", folder: ".config",
		merge: map[string]any{"provider": map[string]any{"fareway": map[string]any{
			"name": "Fareway", "npm": library,
			"options": map[string]any{"baseURL": c.api(), "apiKey": c.key},
			"models":  map[string]any{connectModel: map[string]any{"name": "auto"}},
		}}}}
}

func qwenFile(c connection) connectFile {
	kind, prefix, base := "openai", "OPENAI", c.api()
	if c.family == "messages" {
		kind, prefix, base = "anthropic", "ANTHROPIC", c.url
	}
	return connectFile{path: ".qwen/settings.json", merge: map[string]any{
		"env":      map[string]any{prefix + "_BASE_URL": base, prefix + "_API_KEY": c.key, prefix + "_MODEL": connectModel},
		"security": map[string]any{"auth": map[string]any{"selectedType": kind}},
		"model":    map[string]any{"name": connectModel},
	}}
}

// findConnector finds a client by its name.
func findConnector(name string) (connector, error) {
	names := make([]string, 0, len(connectors))
	for _, c := range connectors {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	if near := config.Nearest(name, names); near != "" {
		return connector{}, fmt.Errorf("there is no client %q: did you mean %s?", name, near)
	}
	return connector{}, fmt.Errorf("there is no client %q: choose one of %s, or set the OpenAI or Anthropic library in yours as `connect openai` and `connect anthropic` say", name, strings.Join(names, ", "))
}

// family is the one that was asked for, or the client's best.
func (c connector) family(asked string) (string, error) {
	if asked == "" {
		return c.families[0], nil
	}
	if !slices.Contains(c.families, asked) {
		return "", fmt.Errorf("%s works with --family %s, not %q", c.title, strings.Join(c.families, " or "), asked)
	}
	return asked, nil
}

// content is what the file holds where there is none yet.
func (f connectFile) content() ([]byte, error) { return f.over(nil) }

// over is what the file becomes over its old content.
func (f connectFile) over(old []byte) ([]byte, error) {
	if f.merge == nil {
		return []byte(f.whole), nil
	}
	settings, err := readObject(old)
	if err != nil {
		return nil, err
	}
	mergeInto(settings, f.merge)
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(settings); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// mergeInto sets all of from in to, object by object.
func mergeInto(to, from map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		inner, ok := from[name].(map[string]any)
		if !ok {
			to[name] = from[name]
			continue
		}
		old, ok := to[name].(map[string]any)
		if !ok {
			old = map[string]any{}
		}
		mergeInto(old, inner)
		to[name] = old
	}
}
