package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// DecodeSettings fills a struct with settings; into is a pointer to a struct with the tags that
// SettingsSchema describes. What values leave out keeps what the struct holds, which is how defaults are
// written. Every mistake is reported, each with the setting's name (`retry.attempts`, `target[1].url`) and
// never with its value, which may be a secret.
func DecodeSettings(values settings.Values, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decoding settings: they are a %T; a pointer to a struct is needed", into)
	}
	if len(bytes.TrimSpace(values)) == 0 {
		values = settings.Values("{}")
	}
	return decodeStruct(values, v.Elem(), "")
}

// decodeStruct fills v; path is the name of the block, with a dot, or "" at the top.
func decodeStruct(raw json.RawMessage, v reflect.Value, path string) error {
	fields, err := fieldsOf(v.Type())
	if err != nil {
		return fmt.Errorf("decoding settings: %w", err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		if path == "" {
			return errors.New("the settings are not a JSON object")
		}
		return fmt.Errorf("setting %s must be a block", path[:len(path)-1])
	}
	var problems []error
	for _, f := range fields {
		value, set := object[f.setting]
		delete(object, f.setting)
		name := path + f.setting
		switch {
		case !set || string(bytes.TrimSpace(value)) == "null":
			if !f.optional && !f.block {
				problems = append(problems, fmt.Errorf("setting %s is required", name))
			}
		case f.block:
			problems = append(problems, decodeBlock(value, v.FieldByIndex(f.Index), name))
		default:
			problems = append(problems, decodeValue(value, v.FieldByIndex(f.Index), name))
		}
	}
	unknown := make([]string, 0, len(object))
	for name := range object {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		problems = append(problems, fmt.Errorf("setting %s is unknown", path+name))
	}
	return errors.Join(problems...)
}

func decodeBlock(raw json.RawMessage, v reflect.Value, name string) error {
	switch v.Kind() {
	case reflect.Slice:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return fmt.Errorf("setting %s must be a list of blocks", name)
		}
		blocks := reflect.MakeSlice(v.Type(), len(items), len(items))
		var problems []error
		for i, item := range items {
			problems = append(problems, decodeStruct(item, blocks.Index(i), fmt.Sprintf("%s[%d].", name, i)))
		}
		v.Set(blocks)
		return errors.Join(problems...)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	return decodeStruct(raw, v, name+".")
}

// decodeValue fills v with one setting. The errors of package json are not passed on: they quote the value.
func decodeValue(raw json.RawMessage, v reflect.Value, name string) error {
	if v.Kind() == reflect.Pointer {
		target := reflect.New(v.Type().Elem())
		if err := decodeValue(raw, target.Elem(), name); err != nil {
			return err
		}
		v.Set(target)
		return nil
	}
	if v.Type() == durationType {
		var text string
		if err := json.Unmarshal(raw, &text); err == nil {
			if d, err := time.ParseDuration(text); err == nil {
				v.SetInt(int64(d))
				return nil
			}
		}
		return fmt.Errorf(`setting %s must be a duration, such as "250ms" or "1m30s"`, name)
	}
	// A fresh value, for Unmarshal would merge into the default of a map.
	target := reflect.New(v.Type())
	if err := json.Unmarshal(raw, target.Interface()); err != nil {
		return fmt.Errorf("setting %s must be %s", name, expected(v.Type()))
	}
	v.Set(target.Elem())
	return nil
}

// expected says in words what a field of type t takes.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map:
		return "a map of strings"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number from 0 that fits %d bits", t.Bits())
	}
	return fmt.Sprintf("a whole number that fits %d bits", t.Bits())
}
