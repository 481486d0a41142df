package command

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/settings"
)

// connection is what a client is pointed at.
type connection struct {
	url    string // "http://127.0.0.1:8484", without a slash at the end
	dial   string // host:port to connect to from this machine
	key    string
	family string // chat, responses or messages
	window int64  // tokens that a request and its reply may have together, 0 when it is not known
	output int64  // tokens that a reply may have
}

// api is what clients of OpenAI's kind, and some others, want as their base URL.
func (c connection) api() string { return c.url + "/v1" }

// connectModel is the public model: routing decides what answers.
const connectModel = "service/auto"

// outputLimit is what clients are told to ask for as the longest reply, in tokens: at most a quarter of the window, so
// that there is room for the request. Credits for all of it are held while a request runs, so that a client which asks
// for 32,000, as most do for a model that they do not know, gets 402 with a small balance.
func outputLimit(window int64) int64 {
	if window == 0 {
		return maxOutputLimit
	}
	return max(1, min(maxOutputLimit, window/4))
}

const maxOutputLimit = 16_384

// connector says how one client is pointed at a gateway.
type connector struct {
	name     string
	title    string
	families []string // that work, the best one first
	// env are variables that the client reads, where it has no file for them.
	env func(c connection) map[string]string
	// file is the client's settings file.
	file func(c connection) connectFile
	// limitsOutput: it has a setting for the longest reply that it asks for.
	limitsOutput bool
	// dotEnv are files of variables that the client reads besides, below the home folder: the first with a name counts,
	// and the environment before them all.
	dotEnv []string
	// foreign are variables that would spoil the connection, if they are set to something else.
	foreign []foreign
	// keys are other places, beside the variables, from which the client would take a key of another service.
	keys []keyPlace
	// start is the command that starts the client with them.
	start string
	note  string // what else there is to know, "" for nothing
}

// foreign is a variable of a client's that the connection does not set.
type foreign struct {
	name string
	// families are those that it concerns, all when there are none.
	families []string
	// does is what the client does with it, said of "The client ...".
	does string
}

// keyPlace is a setting in a file of a client's.
type keyPlace struct {
	file connectFile // without a path it is the client's settings file
	path []string
}

// connectFile is a file of a client's settings.
type connectFile struct {
	path string // below the home folder
	// moved are the variables that name another place for it: the first that is set counts.
	moved   []override
	format  settings.Format
	members []settings.Member
}

// override is a variable that names another file or folder, and what of a path that replaces.
type override struct{ variable, replaces string }

// connectors is in step with examples/clients, which runs each of these clients with the file that is written
// here, or with the variables.
var connectors = []connector{
	{
		name: "anthropic", title: "Anthropic's libraries", families: []string{"messages"},
		env: func(c connection) map[string]string {
			return map[string]string{"ANTHROPIC_BASE_URL": c.url, "ANTHROPIC_AUTH_TOKEN": c.key}
		},
		foreign: []foreign{{name: "ANTHROPIC_API_KEY", does: sendsBoth}},
		note:    "The model is " + connectModel + ".",
	},
	{
		name: "claude", title: "Claude Code", families: []string{"messages"}, start: "claude", file: claudeFile,
		limitsOutput: true,
		foreign: []foreign{
			{name: "ANTHROPIC_API_KEY", does: sendsBoth},
			{name: "CLAUDE_CODE_USE_ANTHROPIC_AWS", does: goesElsewhere},
			{name: "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", does: goesElsewhere},
			{name: "CLAUDE_CODE_USE_BEDROCK", does: goesElsewhere},
			{name: "CLAUDE_CODE_USE_FOUNDRY", does: goesElsewhere},
			{name: "CLAUDE_CODE_USE_MANTLE", does: goesElsewhere},
			{name: "CLAUDE_CODE_USE_VERTEX", does: goesElsewhere},
		},
		keys: []keyPlace{
			{path: []string{"apiKeyHelper"}},
			{
				file: connectFile{path: ".claude.json", moved: []override{{"CLAUDE_CONFIG_DIR", ""}}},
				path: []string{"primaryApiKey"},
			},
		},
		note: "Its web search runs at the model's own service, which the gateway does not offer.\n" +
			"Another service's key, which it would send as well, was looked for in this environment, its settings and " +
			".claude.json;\nnot in shell profiles, nor in the .claude folders of projects.",
	},
	{
		name: "cline", title: "Cline", families: []string{"chat", "messages"}, start: "cline", file: clineFile,
		note: "Its OpenAI provider (responses) always offers an image tool of OpenAI's own, which the gateway refuses.\n" +
			"It has no setting for the longest reply: a request holds credits for 32,000 tokens of it while it runs.",
	},
	{
		name: "codex", title: "Codex", families: []string{"responses"}, start: "codex --profile fareway", file: codexFile,
		note: "Web search and sub-agents are off, for they are tools that run elsewhere, which the gateway refuses.\n" +
			"It has no setting for the longest reply: a request holds credits for up to 32,768 tokens of it while it runs.",
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
		start: "opencode --model fareway/" + connectModel, file: openCodeFile, limitsOutput: true,
	},
	{
		name: "qwen", title: "Qwen Code", families: []string{"chat", "messages"}, start: "qwen", file: qwenFile,
		limitsOutput: true, dotEnv: []string{".qwen/.env", ".env"},
		foreign: []foreign{
			{"OPENAI_BASE_URL", []string{"chat"}, outranks}, {"OPENAI_API_KEY", []string{"chat"}, outranks},
			{"OPENAI_MODEL", []string{"chat"}, outranks}, {"ANTHROPIC_BASE_URL", []string{"messages"}, outranks},
			{"ANTHROPIC_API_KEY", []string{"messages"}, outranks}, {"ANTHROPIC_MODEL", []string{"messages"}, outranks},
			{name: "QWEN_CODE_SIMPLE", does: "would not read its settings file"},
		},
		note: "Variables that it would use in place of these were looked for in this environment and in the .env files of " +
			"the home\nfolder; not in those of projects.",
	},
}

const (
	sendsBoth     = "would send it to the gateway, beside the gateway's own key"
	outranks      = "would use it in place of what is in its settings file"
	goesElsewhere = "would call another service"
)

func claudeFile(c connection) connectFile {
	variable := func(name, value string) settings.Member {
		return settings.Member{Path: []string{"env", name}, Value: value}
	}
	env := []settings.Member{
		variable("ANTHROPIC_BASE_URL", c.url),
		variable("ANTHROPIC_AUTH_TOKEN", c.key),
		variable("ANTHROPIC_MODEL", connectModel),
		variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
		// A line before the system prompt that changes with every request: no upstream's cache would hit.
		variable("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
		variable("CLAUDE_CODE_MAX_OUTPUT_TOKENS", strconv.FormatInt(c.output, 10)),
	}
	if c.window > 0 {
		env = append(env, variable("CLAUDE_CODE_MAX_CONTEXT_TOKENS", strconv.FormatInt(c.window, 10)))
	}
	return connectFile{path: ".claude/settings.json", moved: []override{{"CLAUDE_CONFIG_DIR", ".claude"}},
		format: settings.JSON, members: env}
}

func clineFile(c connection) connectFile {
	provider := map[string]string{"chat": "openai-compatible", "messages": "anthropic"}[c.family]
	entry := map[string]any{"provider": provider, "apiKey": c.key, "model": connectModel, "baseUrl": c.api()}
	if c.window > 0 {
		entry["contextWindow"] = c.window
	}
	moved := []override{
		{"CLINE_PROVIDER_SETTINGS_PATH", ".cline/data/settings/providers.json"},
		{"CLINE_DATA_DIR", ".cline/data"}, {"CLINE_DIR", ".cline"},
	}
	return connectFile{path: moved[0].replaces, moved: moved, format: settings.JSON, members: []settings.Member{
		{Path: []string{"version"}, Value: int64(1), Default: true},
		{Path: []string{"lastUsedProvider"}, Value: provider},
		{Path: []string{"providers", provider}, Whole: true, Value: map[string]any{
			"settings":  entry,
			"updatedAt": "2026-11-20T00:00:00Z", "tokenSource": "manual", // it drops an entry without them
		}},
	}}
}

// codexFile is a profile, a file of its own that Codex lays over its configuration.
func codexFile(c connection) connectFile {
	members := []settings.Member{
		{Path: []string{"model"}, Value: connectModel},
		{Path: []string{"model_provider"}, Value: "fareway"},
		{Path: []string{"web_search"}, Value: "disabled"},
	}
	if c.window > 0 {
		members = append(members, settings.Member{Path: []string{"model_context_window"}, Value: c.window})
	}
	return connectFile{path: ".codex/fareway.config.toml", moved: []override{{"CODEX_HOME", ".codex"}},
		format: settings.TOML, members: append(members,
			settings.Member{Path: []string{"agents", "enabled"}, Value: false},
			settings.Member{Path: []string{"model_providers", "fareway"}, Whole: true, Value: map[string]any{
				"name": "Fareway", "base_url": c.api(), "wire_api": "responses", "experimental_bearer_token": c.key,
			}})}
}

func openCodeFile(c connection) connectFile {
	library := map[string]string{
		"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic",
	}[c.family]
	model := map[string]any{"name": "auto"}
	if c.window > 0 {
		model["limit"] = map[string]any{"context": c.window, "output": c.output}
	}
	return connectFile{path: ".config/opencode/opencode.json", moved: []override{{"XDG_CONFIG_HOME", ".config"}},
		format: settings.JSON, members: []settings.Member{{Path: []string{"provider", "fareway"}, Whole: true,
			Value: map[string]any{
				"name": "Fareway", "npm": library,
				"options": map[string]any{"baseURL": c.api(), "apiKey": c.key},
				"models":  map[string]any{connectModel: model},
			}}}}
}

func qwenFile(c connection) connectFile {
	kind, prefix, base := "openai", "OPENAI", c.api()
	if c.family == "messages" {
		kind, prefix, base = "anthropic", "ANTHROPIC", c.url
	}
	members := []settings.Member{
		{Path: []string{"env", prefix + "_BASE_URL"}, Value: base},
		{Path: []string{"env", prefix + "_API_KEY"}, Value: c.key},
		{Path: []string{"env", prefix + "_MODEL"}, Value: connectModel},
		{Path: []string{"env", "QWEN_CODE_MAX_OUTPUT_TOKENS"}, Value: strconv.FormatInt(c.output, 10)},
		{Path: []string{"security", "auth", "selectedType"}, Value: kind},
		{Path: []string{"model", "name"}, Value: connectModel},
	}
	if c.window > 0 {
		members = append(members,
			settings.Member{Path: []string{"model", "generationConfig", "contextWindowSize"}, Value: c.window})
	}
	return connectFile{path: ".qwen/settings.json", moved: []override{{"QWEN_HOME", ".qwen"}},
		format: settings.JSON, members: members}
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
	return connector{}, fmt.Errorf("there is no client %q: choose one of %s, or set the OpenAI or Anthropic library in "+
		"yours "+
		"as `connect openai` and `connect anthropic` say", name, strings.Join(names, ", "))
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
func (f connectFile) content() ([]byte, error) {
	content, _, err := settings.Apply(f.format, nil, f.members)
	return content, err
}

// warnings are about variables that others have set: in the environment, else in the client's files of variables
// (dotEnv), or in its settings file, whose content is given as it would be.
func (c connector) warnings(
	to connection, getenv func(string) string, dotEnv []string, f connectFile, content []byte,
) (warnings []string) {
	for _, v := range c.foreign {
		if len(v.families) > 0 && !slices.Contains(v.families, to.family) {
			continue
		}
		ours := f.variable(v.name) // "" where the connection does not set it
		value, where, instead := getenv(v.name), "your environment",
			fmt.Sprintf("unset it (`unset %s`), also where your shell sets it", v.name)
		if value == "" {
			value, where = findVariable(dotEnv, v.name)
			instead = "take it out there"
		}
		if value != "" && value != to.key && value != ours {
			warnings = append(warnings, fmt.Sprintf("%s is set in %s, and %s %s: %s.", v.name, where, c.title, v.does, instead))
		}
		value = settings.Lookup(f.format, content, "env", v.name)
		if ours == "" && value != "" && value != to.key {
			warnings = append(warnings, fmt.Sprintf("%s is set in the client's settings file, and %s %s: "+
				"take it out of the object env there.", v.name, c.title, v.does))
		}
	}
	return warnings
}

// keyWarnings are about keys of other services that the client keeps in its files. locate says where a file lies.
func (c connector) keyWarnings(
	content []byte, locate func(connector, connectFile) (string, error),
) (warnings []string) {
	for _, k := range c.keys {
		where := "the client's settings file"
		if k.file.path != "" {
			path, err := locate(c, k.file)
			if err != nil {
				continue
			}
			where = path
			if content, err = os.ReadFile(path); err != nil {
				continue // most often there is none
			}
		}
		if settings.Lookup(settings.JSON, content, k.path...) != "" {
			warnings = append(warnings, fmt.Sprintf("%s is set in %s, and %s %s: take it out there.",
				strings.Join(k.path, "."), where, c.title, sendsBoth))
		}
	}
	return warnings
}

// variable is the value that the file gives a variable, "" for none.
func (f connectFile) variable(name string) string {
	for _, m := range f.members {
		if value, ok := m.Value.(string); ok && slices.Equal(m.Path, []string{"env", name}) {
			return value
		}
	}
	return ""
}
