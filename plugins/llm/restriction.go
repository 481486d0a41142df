package llm

// Restriction is something of requests that some upstreams refuse, or drop without a word, by the name that it has in
// Request.Unsupported and in a route's `unsupported`. What is done about it stands in the Doc, for operators.
type Restriction struct{ Name, Doc string }

// Restrictions are those that Fareway knows, each with what becomes of a request that has what is refused: that is
// left out, or written otherwise, and nothing of it reaches the client; or the route cannot carry the request
// (ErrUnfit). Names that are not known change nothing.
func Restrictions() []Restriction { return restrictions }

// The restrictions that make a route unfit for a request that runs into them.
const (
	RefusesForcedChoice  = "forced_tool_choice"
	RefusesJSONWithTools = "json_with_tools"
)

// ForcesCall reports whether the request demands a call of a tool.
func (r *Request) ForcesCall() bool {
	return len(r.Tools) > 0 && (r.ToolChoice.Mode == ToolRequired || r.ToolChoice.Mode == ToolNamed)
}

// FormatsWithTools reports whether it asks for a format while there are tools.
func (r *Request) FormatsWithTools() bool { return len(r.Tools) > 0 && r.Format != nil }

var restrictions = []Restriction{
	{"stop", "stop sequences: left out; the gateway ends replies at them itself"},
	{"temperature", "a temperature: left out"},
	{"max_tokens", "the allowance by that name (chat): sent as max_completion_tokens"},
	{"stream_options", "asking for usage in a stream (chat): left out"},

	{RefusesForcedChoice, "a tool_choice that demands a call, of any tool or of one: another route has to serve it"},
	{"named_tool_choice", "a tool_choice that names a tool: that tool alone is offered, and a call demanded"},
	{"forced_tool_choice_thinking", "a tool_choice that demands a call while the model thinks (chat): sent with " +
		"`thinking` disabled"},
	{RefusesJSONWithTools, "a format beside tools: another route has to serve it"},
	{"strict", "`strict` of tools: left out"},

	{"call_ids_over_40", "ids of calls over 40 characters: shortened"},
	{"call_ids_over_64", "ids of calls over 64 characters: shortened"},
	{"call_id_symbols", "ids of calls with other characters than letters, digits, _ and -: written in those"},
	{"call_ids_unlike_9", "ids of calls that are not nine letters or digits: written so"},
	{"tool_names_over_64", "names of tools over 64 characters: shortened"},
	{"tool_name_symbols", "names of tools with other characters than letters, digits, _ and -, such as dots: written " +
		"in those"},
	{"tool_name_digits", "names of tools that begin with neither a letter nor _: begun with _"},

	{"schema_without_type", "a tool's schema that does not say that it is of an object: said"},
	{"schema_without_properties", "a tool's schema without properties: said to have none of its own"},
	{"schema_without_items", "an array in a schema, of a tool or a format, without items: said to have any"},
	{
		"schema_root_unions",
		"anyOf, oneOf, allOf, not and enum at the root of a tool's schema: what they describe is made " +
			"the root's own",
	},
	{
		"schema_root_keywords",
		"other keywords than type, properties and required at the root of a tool's schema: left out, " +
			"and references are replaced by what they refer to",
	},
	{"schema_grammar_limits", "schemas that no grammar can be made of (llama.cpp): lengths and counts from 2,000 on, " +
		"patterns that are not anchored or hold escapes, true and references to nothing are left out or loosened"},
	{"schema_beyond_openapi", "schemas that are not of OpenAPI 3.0 as Google reads it: keywords that it does not have " +
		"are left out, lists of types are alternatives, and references are replaced by what they refer to"},

	{"later_system", "system messages but one at the beginning: the first ones are joined, later ones are the user's"},
	{"system_alone", "a conversation of nothing but system messages: they are the user's"},
	{"assistant_first", "a conversation that begins with the assistant: a full stop of the user's is put before it"},
	{"assistant_last", "a conversation that ends with the assistant: a full stop of the user's is put behind it"},
	{"user_after_result", "the user speaking directly behind a tool's result: a full stop of the assistant's is put " +
		"between"},
	{"repeated_roles", "two messages of the user, or of the assistant, in a row: joined"},
	{"empty_assistant", "messages of the assistant that say nothing: left out"},
	{"blank_text", "texts of nothing but white space: left out"},
	{"null_content", "a reply of calls only whose content is null (chat): an empty text"},
	{"text_parts", "texts in parts: joined, a line each"},
	{"result_errors", "the mark of a result that its tool failed: said in words"},
}
