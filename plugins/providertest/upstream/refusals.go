package upstream

import (
	"regexp"
	"slices"
	"strings"
)

// refusal is something that services refuse of requests although the family has it.
type refusal struct {
	what string // by its name in llm.Restrictions
	// of are the services, and families of which all refuse it, with a slash before them.
	of     string
	source string
	check  func(q *asked) error // an *Error where it is there
}

// asked is a request to be judged.
type asked struct {
	*Request
	root    object
	schemas []object // of tools
	format  []object // the schema of the format, if any
}

// everyone are all services, and the families whose functions have names of OpenAI's form.
var everyone = strings.Join(Services(), " ") + " /responses /messages /bedrock"

// refusals are what is known to be refused, and who says so. What the decoders of families refuse (names of functions
// over 64 characters, blank texts of messages, ...) is not here.
var refusals = []refusal{
	{"call_ids_over_40", "openai azure", "vllm #22966, dify #28987, agno #5382", ids(regexp.MustCompile(`^.{1,40}$`))},
	{"call_ids_unlike_9", "mistral", "openclaw #23740, langchain #24668", ids(regexp.MustCompile(`^[a-zA-Z0-9]{9}$`))},
	{"tool_name_symbols", everyone, "OpenAI's reference, Tool; archestra #401, xagent #1342",
		names(regexp.MustCompile(`^[a-zA-Z0-9_-]+$`))},
	{"tool_names_over_64", everyone, "OpenAI's reference, Tool; ImmichMCP #4",
		names(regexp.MustCompile(`^.{1,64}$`))},
	{"tool_name_digits", "gemini", "kaitranntt/ccs #25, cline #7339", names(regexp.MustCompile(`^[a-zA-Z_]`))},

	{"schema_without_type", "openai azure openrouter /responses /messages /bedrock /gemini",
		"pi #8279, Kiro #11027, zed #28521", func(q *asked) error {
			return q.eachSchema(func(s object) error {
				return when(s.fields["type"] != "object", s, "schema must be a JSON Schema of 'type: \"object\"'")
			})
		}},
	{"schema_without_properties", "openai azure /responses", "openai-agents-python #449, langchain-mcp #137",
		func(q *asked) error {
			return q.eachSchema(func(s object) error {
				return when(!s.has("properties"), s, "object schema missing properties")
			})
		}},
	{"schema_without_items", "openai azure openrouter gemini /responses /gemini", "zed #28521, cline #7339",
		func(q *asked) error { return q.eachSchema(itemless) }},
	{"schema_root_unions", "openai azure openrouter /responses /messages /bedrock", "litellm #19103, claude-code #40075",
		func(q *asked) error {
			return q.eachSchema(func(s object) error {
				for _, word := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
					if s.has(word) {
						return invalid(s.path, "schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level")
					}
				}
				return nil
			})
		}},
	{"schema_root_keywords", "/bedrock", "Tool use with Amazon Nova; litellm #19103", func(q *asked) error {
		if !strings.Contains(q.Model, "amazon.nova") {
			return nil
		}
		return q.eachSchema(func(s object) error { return s.only("type", "properties", "required") })
	}},
	{"schema_grammar_limits", "llamacpp lmstudio", "llama.cpp #25746, #27087; qwen-code PR 10275", func(q *asked) error {
		return each(slices.Concat(q.schemas, q.format), func(s object) error {
			why := noGrammar(s.fields, s.fields)
			return when(why != "", s, "failed to parse grammar: "+why)
		})
	}},
	{"schema_beyond_openapi", "gemini", "zed #44875 and #53919, opencode #2687, google-api-python-client #2570",
		func(q *asked) error { return each(slices.Concat(q.schemas, q.format), beyondOpenAPI) }},

	{"later_system", "vllm llamacpp lmstudio mistral", "vllm 41114, litellm 26879, swarmauri 162", func(q *asked) error {
		return q.eachMessage(func(i int, m *Message) string {
			return map[bool]string{true: "System message must be at the beginning."}[m.Role == "system" && i > 0]
		})
	}},
	{"system_alone", "vllm llamacpp lmstudio gemini", "templates of Qwen (No user query found in messages)",
		func(q *asked) error {
			spoken := slices.ContainsFunc(q.Messages, func(m Message) bool { return m.Role != "system" })
			return when(!spoken, q.root, "No user query found in messages.")
		}},
	{"assistant_first", "vllm llamacpp lmstudio gemini /messages /gemini",
		"templates of Mistral and Gemma; Anthropic, Messages; OmniRoute PR 13573",
		func(q *asked) error {
			spoken := false
			return q.eachMessage(func(_ int, m *Message) string {
				first := !spoken && m.Role == "assistant"
				spoken = spoken || m.Role != "system"
				return map[bool]string{true: "Please ensure that the conversation begins with a user turn."}[first]
			})
		}},
	{"assistant_last", "mistral", "AiNiee #641, agno #2285, autogen #5044", func(q *asked) error {
		return q.eachMessage(func(i int, m *Message) string {
			last := i == len(q.Messages)-1 && m.Role == "assistant"
			return map[bool]string{true: "Expected last role User or Tool (or Assistant with prefix True) for serving"}[last]
		})
	}},
	{"user_after_result", "mistral", "hermes #20154, avante #2695", func(q *asked) error {
		return q.eachMessage(func(i int, m *Message) string {
			return map[bool]string{true: "Unexpected role 'user' after role 'tool'"}[m.Role == "user" && i > 0 &&
				q.Messages[i-1].Role == "tool"]
		})
	}},
	{"repeated_roles", "vllm llamacpp lmstudio", "templates of Mistral and Gemma", func(q *asked) error {
		return q.eachMessage(func(i int, m *Message) string {
			return map[bool]string{true: "Conversation roles must alternate user/assistant/user/assistant/..."}[i > 0 &&
				m.Role == q.Messages[i-1].Role && m.Role != "tool" && m.Role != "system"]
		})
	}},
	{"empty_assistant", "mistral moonshot", "kimi-code #1985", func(q *asked) error {
		return q.eachMessage(func(_ int, m *Message) string {
			return map[bool]string{true: "Assistant message must have either content or tool_calls, but not none."}[m.Text ==
				"" && m.Role == "assistant" && len(m.Calls) == 0]
		})
	}},
	{"blank_text", "gemini", "ai-gateway PR 2686, coze-studio #46", func(q *asked) error {
		return q.eachMessage(func(i int, m *Message) string {
			blank := m.Role != "tool" && len(m.Calls) == 0 && strings.TrimSpace(m.Text) == "" || q.hasBlankPart(i)
			return map[bool]string{true: "Unable to submit request because Model input cannot be empty."}[blank]
		})
	}},
	{"text_parts", "deepseek", "its reference, Create chat completion", func(q *asked) error {
		return q.eachContent(func(content any) string {
			_, parts := content.([]any)
			return map[bool]string{true: "invalid type: sequence, expected a string"}[parts]
		})
	}},
	{"null_content", "gemini lmstudio", "iovdin/tune #4, langchain PR 30803, lmstudio #261", func(q *asked) error {
		return q.eachContent(func(content any) string {
			return map[bool]string{true: "Expected string or list of content parts, got: null"}[content == nil]
		})
	}},
	{"forced_tool_choice", "deepseek moonshot", "DeepSeek-V3 #1376, oh-my-pi #1077", func(q *asked) error {
		thinks := strings.Contains(q.Model, "reasoner") || strings.Contains(q.Model, "thinking")
		return when(thinks && q.forced(), q.root, "tool_choice 'required' is incompatible with thinking enabled")
	}},
	{"forced_tool_choice_thinking", "deepseek moonshot", "DeepSeek-V3 #1376, oh-my-pi #1077", func(q *asked) error {
		thinking, _ := q.root.object("thinking")
		return when(q.forced() && thinking.fields["type"] != "disabled", q.root,
			"tool_choice 'specified' is incompatible with thinking enabled")
	}},
	{"json_with_tools", "gemini /gemini", "Structured outputs, with tools: Gemini 3 and later", func(q *asked) error {
		config, _ := q.root.object("generationConfig")
		formatted := q.root.has("response_format") || config.has("responseMimeType")
		return when(strings.Contains(q.Model, "gemini-2") && formatted && q.root.has("tools"), q.root,
			"Function calling with a response mime type: 'application/json' is unsupported")
	}},
}

// Refuses reports whether a service, or a family ("/messages"), is known to refuse that (llm.Restrictions), and who
// says so.
func Refuses(service, what string) (source string, refused bool) {
	for i := range refusals {
		if r := &refusals[i]; r.what == what && slices.Contains(strings.Fields(r.of), service) {
			return r.source, true
		}
	}
	return "", false
}

// refuse judges a request by what the service refuses, see refusals. The error is an *Error.
func (s *Server) refuse(req *Request, family string, body []byte) error {
	service := s.options.Service
	if service == "" && family == "chat" {
		return nil // nobody in particular
	}
	if family != "chat" {
		service = "/" + family
	}
	root, err := parseObject(body)
	if err != nil {
		return err
	}
	q := &asked{Request: req, root: root, schemas: schemasIn(root)}
	if described, err := root.object("response_format"); err == nil { // chat
		if described, err = described.object("json_schema"); err == nil {
			schema, _ := described.object("schema")
			q.format = append(q.format, schema)
		}
	}
	for i := range refusals {
		if slices.Contains(strings.Fields(refusals[i].of), service) {
			if err := refusals[i].check(q); err != nil {
				return err
			}
		}
	}
	return nil
}

// when is the refusal of what is there in o.
func when(there bool, o object, message string) error {
	if there {
		return invalid(o.path, "%s", message)
	}
	return nil
}

// ids refuses ids of calls of another form.
func ids(form *regexp.Regexp) func(*asked) error {
	return func(q *asked) error {
		return q.eachMessage(func(_ int, m *Message) string {
			for _, c := range m.Calls {
				if !form.MatchString(c.ID) {
					return "tool call id " + c.ID + " must match " + form.String()
				}
			}
			return ""
		})
	}
}

// names refuses names of functions of another form, also of those that were called.
func names(form *regexp.Regexp) func(*asked) error {
	return func(q *asked) error {
		for _, tool := range q.Tools {
			if !form.MatchString(tool.Name) {
				return invalid("tools", "function name %s must match %s", tool.Name, form)
			}
		}
		return q.eachMessage(func(_ int, m *Message) string {
			for _, c := range m.Calls {
				if !form.MatchString(c.Name) {
					return "function name " + c.Name + " must match " + form.String()
				}
			}
			return ""
		})
	}
}

func (q *asked) eachSchema(check func(schema object) error) error { return each(q.schemas, check) }

func each(schemas []object, check func(schema object) error) error {
	for _, s := range schemas {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// eachMessage refuses the first message that there is something to say against.
func (q *asked) eachMessage(against func(i int, m *Message) string) error {
	for i := range q.Messages {
		if why := against(i, &q.Messages[i]); why != "" {
			return invalid("messages", "%s", why)
		}
	}
	return nil
}

// eachContent is eachMessage by what stands in `content`.
func (q *asked) eachContent(against func(content any) string) error {
	return q.root.each("messages", func(m object) error {
		why := against(m.fields["content"])
		return when(why != "", m, why)
	})
}

// hasBlankPart reports whether one of the parts of a message is blank.
func (q *asked) hasBlankPart(i int) bool {
	messages, _ := q.root.list("messages")
	if i >= len(messages) {
		return false
	}
	m, _ := asObject("", messages[i])
	parts, _ := m.fields["content"].([]any)
	return slices.ContainsFunc(parts, func(part any) bool {
		p, _ := asObject("", part)
		text, isText := p.fields["text"].(string)
		return isText && strings.TrimSpace(text) == ""
	})
}

// forced reports whether a call is demanded.
func (q *asked) forced() bool {
	_, named := q.root.fields["tool_choice"].(map[string]any)
	return named || q.root.fields["tool_choice"] == "required"
}

// schemaPaths are where families have the schemas of tools, below each tool.
var schemaPaths = [][]string{{"function", "parameters"}, {"parameters"}, {"input_schema"},
	{"toolSpec", "inputSchema", "json"}}

// schemasIn finds the schemas of tools.
func schemasIn(root object) (found []object) {
	if config, err := root.object("toolConfig"); err == nil && config.has("tools") { // bedrock
		root = config
	}
	tools, _ := root.list("tools")
	for _, t := range tools {
		tool, err := asObject("tools", t)
		if err != nil {
			continue
		}
		_ = tool.each("functionDeclarations", func(f object) error { // gemini
			for _, name := range []string{"parameters", "parametersJsonSchema"} {
				if s, err := f.object(name); err == nil {
					found = append(found, s)
				}
			}
			return nil
		})
		for _, path := range schemaPaths {
			at := tool
			for _, name := range path {
				if at, err = at.object(name); err != nil {
					break
				}
			}
			if err == nil {
				found = append(found, at)
			}
		}
	}
	return found
}

// itemless refuses arrays of what is not said, wherever they are.
func itemless(s object) error {
	if s.fields["type"] == "array" && !s.has("items") && !s.has("prefixItems") {
		return invalid(s.path, "array schema missing items")
	}
	return below(s, itemless)
}

// below looks at the schemas in a schema.
func below(s object, check func(object) error) error {
	properties, _ := s.object("properties")
	for name := range properties.fields {
		if one, err := properties.object(name); err == nil {
			if err := check(one); err != nil {
				return err
			}
		}
	}
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s.list(union)
		for _, one := range list {
			if branch, err := asObject(s.at(union), one); err == nil {
				if err := check(branch); err != nil {
					return err
				}
			}
		}
	}
	if items, err := s.object("items"); err == nil {
		return check(items)
	}
	return nil
}

// googleSchema are the fields of google.ai.generativelanguage.v1beta.Schema (ai.google.dev/api/caching).
var googleSchema = []string{"type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems",
	"properties", "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf",
	"propertyOrdering", "default", "items", "minimum", "maximum"}

// beyondOpenAPI refuses schemas that are none of googleSchema.
func beyondOpenAPI(s object) error {
	for name := range s.fields {
		if !slices.Contains(googleSchema, name) {
			return invalid(s.at(name), "Invalid JSON payload received. Unknown name %q: Cannot find field.", name)
		}
	}
	kind, isText := s.fields["type"].(string)
	switch {
	case s.has("type") && !isText:
		return invalid(s.at("type"), "Proto field is not repeating, cannot start list.")
	case !s.has("type") && !s.has("anyOf"):
		return invalid(s.path, "functionDeclaration parameters schema didn't specify the schema type field.")
	case s.has("type") && s.has("anyOf"):
		return invalid(s.path, "schema specified other fields alongside any_of.")
	case isText && !slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object"}, kind):
		return invalid(s.at("type"), "is no type")
	case kind == "string" && s.has("format") && s.fields["format"] != "date-time" && s.fields["format"] != "enum":
		return invalid(s.at("format"), "only 'enum' and 'date-time' are supported for STRING type")
	}
	values, _ := s.fields["enum"].([]any)
	for _, v := range values {
		if text, ok := v.(string); !ok || text == "" {
			return invalid(s.at("enum"), "Invalid value (TYPE_STRING), %v", v)
		}
	}
	properties, _ := s.fields["properties"].(map[string]any)
	for name, one := range properties {
		if _, ok := one.(map[string]any); !ok {
			return invalid(s.at(name), "must be an object")
		}
	}
	required, _ := s.fields["required"].([]any)
	for _, name := range required {
		if text, _ := name.(string); properties[text] == nil {
			return invalid(s.at("required"), "property is not defined")
		}
	}
	return below(s, beyondOpenAPI)
}
