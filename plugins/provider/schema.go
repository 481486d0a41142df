package provider

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// Documented is a struct of settings, or of a block in them, whose documentation is too long for tags.
type Documented interface {
	// Docs has the documentation by the settings' names. It is asked of a zero value.
	Docs() map[string]string
}

// SettingsSchema derives the schema of a plugin's settings from the tags of a struct; v is the struct or a
// pointer to it. Fields without the tag hcl are not settings.
//
//	APIKey  string            `hcl:"api_key" secret:"true" doc:"The upstream's API key."`
//	Timeout time.Duration     `hcl:"timeout,optional" doc:"How long to wait. Default: 30s."`
//	Headers map[string]string `hcl:"headers,optional" doc:"More headers to send."`
//	Retry   Retry             `hcl:"retry,block" doc:"When to try again."`
//	Targets []Target          `hcl:"target,block" doc:"One upstream; may be repeated."`
//
// A setting is required unless it is optional; a block never is. The types are string, bool, every integer
// and float type, time.Duration (written as a string such as "1m30s"), []string, map[string]string, and
// pointers to them, which stay nil when the operator does not set them. A block is a struct, a pointer to a
// struct (nil without the block) or a slice of structs. secret:"true" keeps the value out of everything that
// is printed. A struct that is embedded lends its settings, with its Docs: see Connection. The error is for the
// plugin's author: it names the field.
func SettingsSchema(v any) (settings.Schema, error) {
	t := reflect.TypeOf(v)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return settings.Schema{}, fmt.Errorf("describing settings: they are a %T; a pointer to a struct is needed", v)
	}
	schema, err := schemaOf(t)
	if err != nil {
		return settings.Schema{}, fmt.Errorf("describing settings: %w", err)
	}
	return schema, nil
}

func schemaOf(t reflect.Type) (settings.Schema, error) {
	var schema settings.Schema
	fields, err := fieldsOf(t)
	if err != nil {
		return schema, err
	}
	docs, err := docsOf(t, fields)
	if err != nil {
		return schema, err
	}
	choices, err := choicesOf(t, fields)
	if err != nil {
		return schema, err
	}
	for _, f := range fields {
		if !f.block {
			kind, duration, _ := typeOf(f.Type)
			schema.Attributes = append(schema.Attributes, settings.Attribute{
				Name:     f.setting,
				Type:     kind,
				Required: !f.optional,
				Secret:   f.Tag.Get("secret") == "true",
				Doc:      cmp.Or(f.Tag.Get("doc"), docs[f.setting]),
				OneOf:    choices[f.setting],
				Duration: duration,
			})
			continue
		}
		inner, err := schemaOf(structOf(f.Type))
		if err != nil {
			return schema, err
		}
		schema.Blocks = append(schema.Blocks, settings.Block{
			Name: f.setting, Many: f.Type.Kind() == reflect.Slice, Doc: cmp.Or(f.Tag.Get("doc"), docs[f.setting]), Schema: inner,
		})
	}
	return schema, nil
}

// Choosy is a struct of settings some of which are one of a few words.
type Choosy interface {
	// Choices has the words by the settings' names. It is asked of a zero value.
	Choices() map[string][]string
}

// docsOf is what a struct that is Documented says, and what it embeds.
func docsOf(t reflect.Type, fields []field) (map[string]string, error) {
	docs := make(map[string]string)
	for _, lender := range append(embedded(t), t) {
		documented, ok := reflect.New(lender).Interface().(Documented)
		if !ok {
			continue
		}
		for name, doc := range documented.Docs() {
			if !slices.ContainsFunc(fields, func(f field) bool { return f.setting == name }) {
				return nil, fmt.Errorf("%s.Docs has %q, which is no setting of it", lender.Name(), name)
			}
			docs[name] = doc
		}
	}
	return docs, nil
}

// choicesOf is what a struct that is Choosy says.
func choicesOf(t reflect.Type, fields []field) (map[string][]string, error) {
	choosy, ok := reflect.New(t).Interface().(Choosy)
	if !ok {
		return nil, nil
	}
	choices := choosy.Choices()
	for name := range choices {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.setting == name && f.Type.Kind() == reflect.String }) {
			return nil, fmt.Errorf("%s.Choices has %q, which is no setting of it that is a string", t.Name(), name)
		}
	}
	return choices, nil
}

// embedded are the structs that a struct embeds without a tag.
func embedded(t reflect.Type) []reflect.Type {
	var lenders []reflect.Type
	for f := range t.Fields() {
		if _, tagged := f.Tag.Lookup("hcl"); f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct {
			lenders = append(append(lenders, embedded(f.Type)...), f.Type)
		}
	}
	return lenders
}

// field is a struct field that is a setting.
type field struct {
	reflect.StructField
	setting  string // its name in the operator's file
	optional bool
	block    bool
}

var settingName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// fieldsOf lists the settings of a struct, in the order of the fields. It refuses what the rest of this
// package could not handle, so that the rest need not ask again.
func fieldsOf(t reflect.Type) ([]field, error) {
	var fields []field
	seen := make(map[string]string)
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, ok := sf.Tag.Lookup("hcl")
		if !ok && sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			lent, err := fieldsOf(sf.Type)
			if err != nil {
				return nil, err
			}
			for _, f := range lent {
				if seen[f.setting] != "" {
					return nil, fmt.Errorf("fields %s.%s and %s.%s are both the setting %q", t.Name(), seen[f.setting],
						sf.Type.Name(), f.Name, f.setting)
				}
				seen[f.setting] = sf.Name + "." + f.Name
				f.Index = append([]int{i}, f.Index...)
				fields = append(fields, f)
			}
			continue
		}
		if !ok {
			continue
		}
		where := t.Name() + "." + sf.Name
		if !sf.IsExported() {
			return nil, fmt.Errorf("field %s has the tag hcl but is not exported; export it", where)
		}
		name, kind, _ := strings.Cut(tag, ",")
		f := field{StructField: sf, setting: name, optional: kind == "optional", block: kind == "block"}
		switch {
		case !settingName.MatchString(name):
			return nil, fmt.Errorf("field %s has the setting name %q; use lower-case words with underscores", where, name)
		case seen[name] != "":
			return nil, fmt.Errorf("fields %s and %s.%s are both the setting %q", where, t.Name(), seen[name], name)
		case kind != "" && kind != "optional" && kind != "block":
			return nil, fmt.Errorf("field %s has the tag hcl:%q; after the comma, optional and block are known", where, tag)
		case f.block && structOf(sf.Type) == nil:
			return nil, fmt.Errorf("field %s is a block of type %s; use a struct, a pointer to one or a slice of them", where,
				sf.Type)
		}
		if _, _, err := typeOf(sf.Type); !f.block && err != nil {
			return nil, fmt.Errorf("field %s: %w", where, err)
		}
		seen[name] = sf.Name
		fields = append(fields, f)
	}
	return fields, nil
}

var durationType = reflect.TypeFor[time.Duration]()

// typeOf is the setting's type for a field of type t, and whether it is a duration.
func typeOf(t reflect.Type) (kind settings.Type, duration bool, err error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == durationType {
		return settings.String, true, nil
	}
	switch t.Kind() {
	case reflect.String:
		return settings.String, false, nil
	case reflect.Bool:
		return settings.Bool, false, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return settings.Number, false, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return settings.ListString, false, nil
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String {
			return settings.MapString, false, nil
		}
	}
	return "", false, fmt.Errorf("a setting cannot have the type %s; use a string, number, bool, duration, []string or "+
		"map[string]string", t)
}

// structOf is the struct that a block of type t holds, nil if t is no block.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}
