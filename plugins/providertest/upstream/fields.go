package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// object is a JSON object of a request, with the path by which errors name it.
type object struct {
	path   string
	fields map[string]any
}

// parseObject reads a request body.
func parseObject(body []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return object{}, invalid("", "the body is not JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return object{}, invalid("", "the body has data after the JSON object")
	}
	return asObject("", v)
}

// invalid makes the 400 for a field.
func invalid(param, format string, args ...any) error {
	e := BadRequest(fmt.Sprintf(format, args...), param)
	if param != "" {
		e.Message = fmt.Sprintf("'%s': %s", param, e.Message)
	}
	return &e
}

func asObject(path string, v any) (object, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return object{}, invalid(path, "must be an object")
	}
	return object{path: path, fields: fields}, nil
}

// at is the path of a field.
func (o object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// has reports whether a field is there and not null.
func (o object) has(name string) bool { return o.fields[name] != nil }

// only refuses every field that is not named.
func (o object) only(names ...string) error {
	var unknown []string
	for name := range o.fields {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return invalid(o.at(unknown[0]), "is not a known field")
}

// text reads a string; it must be there.
func (o object) text(name string) (string, error) {
	s, ok := o.fields[name].(string)
	if !ok {
		return "", invalid(o.at(name), "must be a string")
	}
	return s, nil
}

// optionalText reads a string that may be left out.
func (o object) optionalText(name string) (string, error) {
	if !o.has(name) {
		return "", nil
	}
	return o.text(name)
}

// optionalBool reads a boolean that may be left out.
func (o object) optionalBool(name string) (bool, error) {
	if !o.has(name) {
		return false, nil
	}
	b, ok := o.fields[name].(bool)
	if !ok {
		return false, invalid(o.at(name), "must be a boolean")
	}
	return b, nil
}

// number checks a number that may be left out.
func (o object) number(name string, lowest, highest float64) error {
	if !o.has(name) {
		return nil
	}
	n, ok := o.fields[name].(json.Number)
	if !ok {
		return invalid(o.at(name), "must be a number")
	}
	if f, err := n.Float64(); err != nil || f < lowest || f > highest {
		return invalid(o.at(name), "must be from %v to %v", lowest, highest)
	}
	return nil
}

// positive reads an integer of 1 or more that may be left out; 0 then.
func (o object) positive(name string) (int64, error) {
	if !o.has(name) {
		return 0, nil
	}
	n, ok := o.fields[name].(json.Number)
	if !ok {
		return 0, invalid(o.at(name), "must be an integer")
	}
	i, err := n.Int64()
	if err != nil || i < 1 || i > math.MaxInt32 {
		return 0, invalid(o.at(name), "must be an integer of 1 or more")
	}
	return i, nil
}

// list reads an array that may be left out; one that is there must not be empty.
func (o object) list(name string) ([]any, error) {
	if !o.has(name) {
		return nil, nil
	}
	l, ok := o.fields[name].([]any)
	if !ok {
		return nil, invalid(o.at(name), "must be an array")
	}
	if len(l) == 0 {
		return nil, invalid(o.at(name), "must not be empty")
	}
	return l, nil
}

// object reads an object; it must be there.
func (o object) object(name string) (object, error) { return asObject(o.at(name), o.fields[name]) }

// each reads an array of objects that may be left out; one that is there must not be empty.
func (o object) each(name string, take func(object) error) error {
	list, err := o.list(name)
	if err != nil {
		return err
	}
	for i, v := range list {
		item, err := asObject(fmt.Sprintf("%s[%d]", o.at(name), i), v)
		if err != nil {
			return err
		}
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}
