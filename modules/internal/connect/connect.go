// Package connect has a table of clients, libraries and coding agents, with what points each of them at the gateway: it
// writes that into their settings files, and takes it out again. It also sends one real request in each shape, by which
// people see whether a gateway answers.
package connect

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/settings"
)

// Gateway is what a client is pointed at.
type Gateway struct {
	URL    string // "http://127.0.0.1:8484", without a slash at the end
	Key    string
	Family string // chat, responses or messages
	Window int64  // tokens that a request and its reply may have together, 0 when it is not known
	Output int64  // tokens that a reply may have
}

// API is what clients of OpenAI's kind, and some others, want as their base URL.
func (g Gateway) API() string { return g.URL + "/v1" }

// Model is the public model: routing decides what answers.
const Model = "service/auto"

// OutputLimit is what clients are told to ask for as the longest reply, in tokens: at most a quarter of the window, so
// that there is room for the request. Credits for all of it are held while a request runs, so that a client which asks
// for 32,000, as most do for a model that they do not know, gets 402 with a small balance.
func OutputLimit(window int64) int64 {
	if window == 0 {
		return maxOutputLimit
	}
	return max(1, min(maxOutputLimit, window/4))
}

const maxOutputLimit = 16_384

// Client says how one client is pointed at a gateway.
type Client struct {
	Name     string
	Title    string
	Families []string // that work, the best one first
	// Env are variables that the client reads, where it has no file for them.
	Env func(c Gateway) map[string]string
	// File is the client's settings file.
	File func(c Gateway) File
	// LimitsOutput: it has a setting for the longest reply that it asks for.
	LimitsOutput bool
	// dotEnv are files of variables that the client reads besides, below the home folder: the first with a name counts,
	// and the environment before them all.
	dotEnv []string
	// foreign are variables that would spoil the connection, if they are set to something else.
	foreign []foreign
	// keys are other places, beside the variables, from which the client would take a key of another service.
	keys []keyPlace
	// Start is the command that starts the client with them.
	Start string
	Note  string // what else there is to know, "" for nothing
	// Checked is what Warnings and KeyWarnings look at, where that is not all that there may be.
	Checked string
	// examples are programs that use it, with {URL} and {KEY} in them.
	examples []Example
	// example is the one of the gateway's family.
	example func(Gateway) Example
}

// Example is a program, or a command, that sends a request.
type Example struct {
	Title string // the language's name, or "" where the client says it
	Text  string
}

// Export is what a shell sets the client's variables with, a line each; "" where there are none.
func (c Client) Export(g Gateway) string {
	if c.Env == nil {
		return ""
	}
	env := c.Env(g)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&b, "export %s=%s\n", name, env[name])
	}
	return b.String()
}

// Examples are programs that send a request by the client; none for clients that are programs themselves.
func (c Client) Examples(g Gateway) (list []Example) {
	if c.example != nil {
		list = append(list, c.example(g))
	}
	for _, e := range c.examples {
		list = append(list, Example{e.Title, strings.NewReplacer("{URL}", g.URL, "{KEY}", g.Key).Replace(e.Text)})
	}
	return list
}

var families = []string{"chat", "responses", "messages"}

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
	file File // without a path it is the client's settings file
	path []string
}

// File is a file of a client's settings.
type File struct {
	Path string // below the home folder
	// moved are the variables that name another place for it: the first that is set counts.
	moved   []override
	format  settings.Format
	members []settings.Member
}

// override is a variable that names another file or folder, and what of a path that replaces.
type override struct{ variable, replaces string }

// Clients is in step with examples/clients, which runs each of these clients with the file that is written
// here, or with the variables.
var Clients = []Client{
	{
		Name: "anthropic", Title: "Anthropic's libraries", Families: []string{"messages"},
		Env: func(c Gateway) map[string]string {
			return map[string]string{"ANTHROPIC_BASE_URL": c.URL, "ANTHROPIC_AUTH_TOKEN": c.Key}
		},
		foreign: []foreign{{name: "ANTHROPIC_API_KEY", does: sendsBoth}},
		Note:    "The model is " + Model + ".",
		examples: []Example{{Title: "Python", Text: `from anthropic import Anthropic

client = Anthropic(base_url="{URL}", auth_token="{KEY}")
reply = client.messages.create(model="service/auto", max_tokens=500,
    messages=[{"role": "user", "content": "Hello"}])
print(reply.content[0].text)
`}},
	},
	{
		Name: "claude", Title: "Claude Code", Families: []string{"messages"}, Start: "claude", File: claudeFile,
		LimitsOutput: true,
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
				file: File{Path: ".claude.json", moved: []override{{"CLAUDE_CONFIG_DIR", ""}}},
				path: []string{"primaryApiKey"},
			},
		},
		Note: "Its web search runs at the model's own service, which the gateway does not offer.",
		Checked: "Another service's key, which it would send as well, was looked for in this environment, its settings and " +
			".claude.json;\nnot in shell profiles, nor in the .claude folders of projects.",
	},
	{
		Name: "cline", Title: "Cline", Families: []string{"chat", "messages"}, Start: "cline", File: clineFile,
		Note: "Its OpenAI provider (responses) always offers an image tool of OpenAI's own, which the gateway refuses.\n" +
			"It has no setting for the longest reply: a request holds credits for 32,000 tokens of it while it runs.",
	},
	{
		Name: "codex", Title: "Codex", Families: []string{"responses"}, Start: "codex --profile fareway", File: codexFile,
		Note: "Web search and sub-agents are off, for they are tools that run elsewhere, which the gateway refuses.\n" +
			"It has no setting for the longest reply: a request holds credits for up to 32,768 tokens of it while it runs.",
	},
	{
		Name: "curl", Title: "curl", Families: families,
		example: func(c Gateway) Example {
			s := ShapeOf(c.Family)
			return Example{Text: "curl " + c.URL + s.Path + " -H 'Authorization: Bearer " + c.Key + "' \\\n" +
				"  -H 'Content-Type: application/json' \\\n  -d '" + s.Body + "'\n"}
		},
	},
	{
		Name: "openai", Title: "OpenAI's libraries, and what is built on them", Families: []string{"chat", "responses"},
		Env: func(c Gateway) map[string]string {
			return map[string]string{"OPENAI_BASE_URL": c.API(), "OPENAI_API_KEY": c.Key}
		},
		Note: "The model is " + Model + ".",
		examples: []Example{{Title: "Python", Text: `from openai import OpenAI

client = OpenAI(base_url="{URL}/v1", api_key="{KEY}")
reply = client.chat.completions.create(
    model="service/auto", messages=[{"role": "user", "content": "Hello"}])
print(reply.choices[0].message.content)
`}, {Title: "Node.js", Text: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{URL}/v1", apiKey: "{KEY}" });
const reply = await client.responses.create({ model: "service/auto", input: "Hello" });
console.log(reply.output_text);
`}},
	},
	{
		Name: "opencode", Title: "OpenCode", Families: []string{"chat", "responses", "messages"},
		Start: "opencode --model fareway/" + Model, File: openCodeFile, LimitsOutput: true,
	},
	{
		Name: "qwen", Title: "Qwen Code", Families: []string{"chat", "messages"}, Start: "qwen", File: qwenFile,
		LimitsOutput: true, dotEnv: []string{".qwen/.env", ".env"},
		foreign: []foreign{
			{"OPENAI_BASE_URL", []string{"chat"}, outranks}, {"OPENAI_API_KEY", []string{"chat"}, outranks},
			{"OPENAI_MODEL", []string{"chat"}, outranks}, {"ANTHROPIC_BASE_URL", []string{"messages"}, outranks},
			{"ANTHROPIC_API_KEY", []string{"messages"}, outranks}, {"ANTHROPIC_MODEL", []string{"messages"}, outranks},
			{name: "QWEN_CODE_SIMPLE", does: "would not read its settings file"},
		},
		Checked: "Variables that it would use in place of these were looked for in this environment and in the .env files " +
			"of the home\nfolder; not in those of projects.",
	},
}

const (
	sendsBoth     = "would send it to the gateway, beside the gateway's own key"
	outranks      = "would use it in place of what is in its settings file"
	goesElsewhere = "would call another service"
)

func claudeFile(c Gateway) File {
	variable := func(name, value string) settings.Member {
		return settings.Member{Path: []string{"env", name}, Value: value}
	}
	env := []settings.Member{
		variable("ANTHROPIC_BASE_URL", c.URL),
		variable("ANTHROPIC_AUTH_TOKEN", c.Key),
		variable("ANTHROPIC_MODEL", Model),
		variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
		// A line before the system prompt that changes with every request: no upstream's cache would hit.
		variable("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
		variable("CLAUDE_CODE_MAX_OUTPUT_TOKENS", strconv.FormatInt(c.Output, 10)),
	}
	if c.Window > 0 {
		env = append(env, variable("CLAUDE_CODE_MAX_CONTEXT_TOKENS", strconv.FormatInt(c.Window, 10)))
	}
	return File{Path: ".claude/settings.json", moved: []override{{"CLAUDE_CONFIG_DIR", ".claude"}},
		format: settings.JSON, members: env}
}

func clineFile(c Gateway) File {
	provider := map[string]string{"chat": "openai-compatible", "messages": "anthropic"}[c.Family]
	entry := map[string]any{"provider": provider, "apiKey": c.Key, "model": Model, "baseUrl": c.API()}
	if c.Window > 0 {
		entry["contextWindow"] = c.Window
	}
	moved := []override{
		{"CLINE_PROVIDER_SETTINGS_PATH", ".cline/data/settings/providers.json"},
		{"CLINE_DATA_DIR", ".cline/data"}, {"CLINE_DIR", ".cline"},
	}
	return File{Path: moved[0].replaces, moved: moved, format: settings.JSON, members: []settings.Member{
		{Path: []string{"version"}, Value: int64(1), Default: true},
		{Path: []string{"lastUsedProvider"}, Value: provider},
		{Path: []string{"providers", provider}, Whole: true, Value: map[string]any{
			"settings":  entry,
			"updatedAt": "2026-11-20T00:00:00Z", "tokenSource": "manual", // it drops an entry without them
		}},
	}}
}

// codexFile is a profile, a file of its own that Codex lays over its configuration.
func codexFile(c Gateway) File {
	members := []settings.Member{
		{Path: []string{"model"}, Value: Model},
		{Path: []string{"model_provider"}, Value: "fareway"},
		{Path: []string{"web_search"}, Value: "disabled"},
	}
	if c.Window > 0 {
		members = append(members, settings.Member{Path: []string{"model_context_window"}, Value: c.Window})
	}
	return File{Path: ".codex/fareway.config.toml", moved: []override{{"CODEX_HOME", ".codex"}},
		format: settings.TOML, members: append(members,
			settings.Member{Path: []string{"agents", "enabled"}, Value: false},
			settings.Member{Path: []string{"model_providers", "fareway"}, Whole: true, Value: map[string]any{
				"name": "Fareway", "base_url": c.API(), "wire_api": "responses", "experimental_bearer_token": c.Key,
			}})}
}

func openCodeFile(c Gateway) File {
	library := map[string]string{
		"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic",
	}[c.Family]
	model := map[string]any{"name": "auto"}
	if c.Window > 0 {
		model["limit"] = map[string]any{"context": c.Window, "output": c.Output}
	}
	return File{Path: ".config/opencode/opencode.json", moved: []override{{"XDG_CONFIG_HOME", ".config"}},
		format: settings.JSON, members: []settings.Member{{Path: []string{"provider", "fareway"}, Whole: true,
			Value: map[string]any{
				"name": "Fareway", "npm": library,
				"options": map[string]any{"baseURL": c.API(), "apiKey": c.Key},
				"models":  map[string]any{Model: model},
			}}}}
}

func qwenFile(c Gateway) File {
	kind, prefix, base := "openai", "OPENAI", c.API()
	if c.Family == "messages" {
		kind, prefix, base = "anthropic", "ANTHROPIC", c.URL
	}
	members := []settings.Member{
		{Path: []string{"env", prefix + "_BASE_URL"}, Value: base},
		{Path: []string{"env", prefix + "_API_KEY"}, Value: c.Key},
		{Path: []string{"env", prefix + "_MODEL"}, Value: Model},
		{Path: []string{"env", "QWEN_CODE_MAX_OUTPUT_TOKENS"}, Value: strconv.FormatInt(c.Output, 10)},
		{Path: []string{"security", "auth", "selectedType"}, Value: kind},
		{Path: []string{"model", "name"}, Value: Model},
	}
	if c.Window > 0 {
		members = append(members,
			settings.Member{Path: []string{"model", "generationConfig", "contextWindowSize"}, Value: c.Window})
	}
	return File{Path: ".qwen/settings.json", moved: []override{{"QWEN_HOME", ".qwen"}},
		format: settings.JSON, members: members}
}

// Find finds a client by its name.
func Find(name string) (Client, error) {
	names := make([]string, 0, len(Clients))
	for _, c := range Clients {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if near := config.Nearest(name, names); near != "" {
		return Client{}, fmt.Errorf("there is no client %q: did you mean %s?", name, near)
	}
	return Client{}, fmt.Errorf("there is no client %q: choose one of %s, or set the OpenAI or Anthropic library in "+
		"yours "+
		"as `connect openai` and `connect anthropic` say", name, strings.Join(names, ", "))
}

// ChooseFamily is the one that was asked for, or the client's best.
func (c Client) ChooseFamily(asked string) (string, error) {
	if asked == "" {
		return c.Families[0], nil
	}
	if !slices.Contains(c.Families, asked) {
		return "", fmt.Errorf("%s works with --family %s, not %q", c.Title, strings.Join(c.Families, " or "), asked)
	}
	return asked, nil
}

// Content is what the file holds where there is none yet.
func (f File) Content() ([]byte, error) {
	content, _, err := settings.Apply(f.format, nil, f.members)
	return content, err
}

// Warnings are about variables that others have set: in the environment, else in the client's files of variables
// (dotEnv), or in its settings file, whose content is given as it would be.
func (c Client) Warnings(
	to Gateway, getenv func(string) string, dotEnv []string, f File, content []byte,
) (warnings []string) {
	for _, v := range c.foreign {
		if len(v.families) > 0 && !slices.Contains(v.families, to.Family) {
			continue
		}
		ours := f.variable(v.name) // "" where the connection does not set it
		value, where, instead := getenv(v.name), "your environment",
			fmt.Sprintf("unset it (`unset %s`), also where your shell sets it", v.name)
		if value == "" {
			value, where = findVariable(dotEnv, v.name)
			instead = "take it out there"
		}
		if value != "" && value != to.Key && value != ours {
			warnings = append(warnings, fmt.Sprintf("%s is set in %s, and %s %s: %s.", v.name, where, c.Title, v.does, instead))
		}
		value = settings.Lookup(f.format, content, "env", v.name)
		if ours == "" && value != "" && value != to.Key {
			warnings = append(warnings, fmt.Sprintf("%s is set in the client's settings file, and %s %s: "+
				"take it out of the object env there.", v.name, c.Title, v.does))
		}
	}
	return warnings
}

// KeyWarnings are about keys of other services that the client keeps in its files. locate says where a file lies.
func (c Client) KeyWarnings(
	content []byte, locate func(Client, File) (string, error),
) (warnings []string) {
	for _, k := range c.keys {
		where := "the client's settings file"
		if k.file.Path != "" {
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
				strings.Join(k.path, "."), where, c.Title, sendsBoth))
		}
	}
	return warnings
}

// variable is the value that the file gives a variable, "" for none.
func (f File) variable(name string) string {
	for _, m := range f.members {
		if value, ok := m.Value.(string); ok && slices.Equal(m.Path, []string{"env", name}) {
			return value
		}
	}
	return ""
}
