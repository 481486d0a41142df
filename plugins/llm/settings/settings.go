// Package settings describes the settings of a plugin: what a provider declares, what the configuration
// decodes a `config` block with, and what `fareway gateway schema` will print. Pure data, so that the
// configuration, the host and the SDK can share it without knowing each other.
package settings

import "encoding/json"

// Schema is what a plugin accepts in its `config` block.
type Schema struct {
	Attributes []Attribute
	Blocks     []Block
}

// Type is the type of an attribute, in HCL's type syntax.
type Type string

const (
	String     Type = "string"
	Number     Type = "number"
	Bool       Type = "bool"
	ListString Type = "list(string)"
	MapString  Type = "map(string)"
)

// Attribute is one setting.
type Attribute struct {
	Name     string
	Type     Type
	Required bool
	// Secret: the value may come from env("NAME") or file("path") only, and is never printed.
	Secret bool
	// Doc says what the setting does, its unit, its danger and its default, for people.
	Doc string
	// OneOf are what a String may be; empty: anything.
	OneOf []string
	// Duration: a String is a duration, such as "1m30s".
	Duration bool
}

// Block is a nested block, at most one of it unless Many.
type Block struct {
	Name string
	Many bool
	Doc  string
	Schema
}

// Values are decoded settings as a JSON object: attributes by name, a block as an object, a block that
// is Many as an array of objects; what was not set is absent. They may hold secrets: never print them.
type Values = json.RawMessage
