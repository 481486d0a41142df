package wire

// Wish is a way of a shape to ask for structured output.
type Wish struct {
	Clause string
	Shape  Shape
	// Member is a member of the request, from the value of the format.
	Member func(format string) string
	// Schema is a format of the type json_schema, from the fields beside its type.
	Schema func(fields string) string
}

// Wishes are all of them.
var Wishes = []Wish{
	{"STRUCT-10", Chat, responseFormat, nestedSchema},
	{"STRUCT-11", Responses, func(f string) string { return `"text":{"format":` + f + `}` }, flatSchema},
	{"STRUCT-12", Responses, responseFormat, nestedSchema},
	{"STRUCT-14", Messages, func(f string) string { return `"output_format":` + f }, flatSchema},
	{"STRUCT-15", Messages, func(f string) string { return `"output_config":{"format":` + f + `}` }, flatSchema},
}

func responseFormat(format string) string { return `"response_format":` + format }

func nestedSchema(fields string) string {
	return `{"type":"json_schema","json_schema":{` + fields + `}}`
}

func flatSchema(fields string) string { return `{"type":"json_schema",` + fields + `}` }

// Wishes are those of a shape.
func (s Shape) Wishes() []Wish {
	var all []Wish
	for _, w := range Wishes {
		if w.Shape.Name == s.Name {
			all = append(all, w)
		}
	}
	return all
}

// DaySchema is a schema for an answer.
const DaySchema = `{"type":"object","properties":{"day":{"type":"string"}},"required":["day"],` +
	`"additionalProperties":false}`
