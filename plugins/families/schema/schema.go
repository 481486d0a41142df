// Package schema says what the bodies and events of the families look like, field by field, and checks them: what the
// official client libraries require is there, and nothing is there that they do not have, but for what the contract
// adds (GAP-116). Where the contract leaves a field out, so does the schema; the tests name each such field.
//
// It judges what the gateway writes, for tests of codecs and of the gateway. It knows JSON and nothing of how the
// families' packages write it, for two that are made by one hand agree too easily.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Family is the schema of one family.
type Family struct {
	body    Type
	event   func(event map[string]any) Type // nil for an event that the family does not have
	failure Type
	count   Type
}

// Of returns the schema of the family of that name ("chat", "responses", "messages"), nil for any other.
func Of(family string) *Family { return families[family] }

var families = map[string]*Family{"chat": chat, "responses": responses, "messages": messages}

// Body checks a whole reply. The error says where what is wrong.
func (f *Family) Body(body []byte) error { return check("body", f.body, body) }

// Failure checks the body of an error.
func (f *Family) Failure(body []byte) error { return check("error body", f.failure, body) }

// Count checks the reply to a token count.
func (f *Family) Count(body []byte) error { return check("token count", f.count, body) }

// Event checks the data of one event of a stream. An end marker that is no JSON is none.
func (f *Family) Event(data []byte) error {
	v, err := decode(data)
	if err != nil {
		return fmt.Errorf("reading an event: %w: %s", err, data)
	}
	event, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("checking an event: it is not an object: %s", data)
	}
	t := f.event(event)
	if t == nil {
		return fmt.Errorf("checking an event: the family has none like it: %s", data)
	}
	if err := t.check("event", v); err != nil {
		return fmt.Errorf("checking an event: %w: %s", err, data)
	}
	return nil
}

// Stream checks the events of a stream as it was written, or of as much of it as is whole.
func (f *Family) Stream(stream []byte) error {
	for line := range bytes.Lines(stream) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || !bytes.HasSuffix(line, []byte("\n")) || string(data) == "[DONE]\n" {
			continue
		}
		if err := f.Event(bytes.TrimSuffix(data, []byte("\n"))); err != nil {
			return err
		}
	}
	return nil
}

func check(what string, t Type, text []byte) error {
	v, err := decode(text)
	if err == nil {
		err = t.check(what, v)
	}
	if err != nil {
		return fmt.Errorf("checking a %s: %w: %s", what, err, text)
	}
	return nil
}

func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// Type is what a value may be. path is where it stands, for the error.
type Type interface {
	check(path string, v any) error
}

// Object is an object of these members and no others. A name that ends in "?" may be absent.
type Object map[string]Type

func (o Object) check(path string, v any) error {
	members, ok := v.(map[string]any)
	if !ok {
		return wrong(path, "an object", v)
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		t, required := o[name], true
		if optional, ok := strings.CutSuffix(name, "?"); ok {
			name, required = optional, false
		}
		member, present := members[name]
		switch {
		case present:
			if err := t.check(path+"."+name, member); err != nil {
				return err
			}
		case required:
			return fmt.Errorf("%s.%s is missing", path, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if o[name] == nil && o[name+"?"] == nil {
			return fmt.Errorf("%s.%s is not in the schema", path, name)
		}
	}
	return nil
}

// List is an array of elements of one type.
type List struct{ Of Type }

func (l List) check(path string, v any) error {
	elements, ok := v.([]any)
	if !ok {
		return wrong(path, "an array", v)
	}
	for i, element := range elements {
		if err := l.Of.check(fmt.Sprintf("%s[%d]", path, i), element); err != nil {
			return err
		}
	}
	return nil
}

// Either is a value of one of several types. For objects that say their type, the error is of the one that is meant.
type Either []Type

func (e Either) check(path string, v any) error {
	var problems []string
	for _, t := range e {
		err := t.check(path, v)
		if err == nil {
			return nil
		}
		problems = append(problems, err.Error())
	}
	return fmt.Errorf("%s", strings.Join(problems, "; or "))
}

// Words is one of these texts.
type Words []string

func (w Words) check(path string, v any) error {
	if s, ok := v.(string); !ok || !slices.Contains(w, s) {
		return wrong(path, "one of "+strings.Join(w, ", "), v)
	}
	return nil
}

// scalar is a value that holds no others.
type scalar struct {
	name string
	is   func(v any) bool
}

func (s scalar) check(path string, v any) error {
	if !s.is(v) {
		return wrong(path, s.name, v)
	}
	return nil
}

// The types of values that hold no others. Count is a whole number from 0, JSON an object of any form.
var (
	Text   = scalar{"a text", func(v any) bool { _, ok := v.(string); return ok }}
	Flag   = scalar{"true or false", func(v any) bool { _, ok := v.(bool); return ok }}
	Null   = scalar{"null", func(v any) bool { return v == nil }}
	Number = scalar{"a number", func(v any) bool { _, ok := v.(json.Number); return ok }}
	JSON   = scalar{"an object", func(v any) bool { _, ok := v.(map[string]any); return ok }}
	Count  = scalar{"a whole number from 0", isCount}
)

// nothing is an array without elements.
var nothing = scalar{"an empty array", func(v any) bool { a, ok := v.([]any); return ok && len(a) == 0 }}

func isCount(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	i, err := n.Int64()
	return err == nil && i >= 0
}

// exactly is a constant.
func exactly(want any) Type {
	return scalar{fmt.Sprintf("%v", want), func(v any) bool {
		if n, ok := v.(json.Number); ok {
			return fmt.Sprint(want) == n.String()
		}
		return v == want
	}}
}

// nullable is a value that may be null.
func nullable(t Type) Type { return Either{Null, t} }

func wrong(path, want string, v any) error {
	return fmt.Errorf("%s is not %s but a value of type %T", path, want, v)
}

// codedError is the error object of the families whose errors have a code.
var codedError = Object{"code": Text, "message": Text, "type": Text, "param?": exactly("model")}

// unsettled is the usage of an error frame: what that of a reply has is there, at 0, but for an amount (GAP-58,
// GAP-129). usage has no other members than counts and objects of counts.
func unsettled(usage Object) Object {
	none := zeros(usage)
	delete(none, "billed_microcents")
	none["billing_pending"] = exactly(true)
	return none
}

func zeros(usage Object) Object {
	none := make(Object, len(usage))
	for name, t := range usage {
		name = strings.TrimSuffix(name, "?")
		if details, ok := t.(Object); ok {
			none[name] = zeros(details)
		} else {
			none[name] = exactly(0)
		}
	}
	return none
}

// priced are the members that the contract adds to usage (USE-01, USE-02).
func priced(usage Object) Object {
	usage["billed_microcents"], usage["billing_pending"] = Count, Flag
	return usage
}
