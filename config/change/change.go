// Package change says what would be different if one configuration took the place of another: data, for people, for
// reviews and for whoever decides by it. It is pure; who is touched by it, and whether it can be done, others know.
package change

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
)

// Kind is what happens to a block.
type Kind string

const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Altered Kind = "altered"
)

// Process is what happens to a provider's process.
type Process string

const (
	Starts   Process = "starts"
	Restarts Process = "restarts" // a new one takes new requests, and the old one ends with the last of its own
	Stops    Process = "stops"    // with the last of its requests
)

// Block is a block of the configuration that is not as it was.
type Block struct {
	Kind Kind   `json:"kind"`
	Type string `json:"type"` // "route", "plan", "gateway", ...
	Name string `json:"name,omitempty"`
	// Fields are what is different in one that is altered, by name.
	Fields []Field `json:"fields,omitempty"`
	// Process is what happens to a provider's process, "" for nothing.
	Process Process `json:"process,omitempty"`
	// Typical is what the typical request costs on a route whose price is not as it was.
	Typical *Typical `json:"typical_request,omitempty"`
	// Accounts is how many accounts are on a plan. Who knows them fills it in.
	Accounts *int64 `json:"accounts,omitempty"`
}

// Field is a setting with two values, as JSON; null where it was not or is no more. Secrets are ***.
type Field struct {
	Name   string          `json:"name"` // "price.input"
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// The typical request: a short conversation, nothing of it cached.
const (
	TypicalInput  = 4000 // tokens
	TypicalOutput = 500
)

// Typical is what the typical request is charged, in microcents; null where there is no such route.
type Typical struct {
	Before *int64 `json:"before_microcents"`
	After  *int64 `json:"after_microcents"`
}

// Between compares two configurations at a time, which tells which of dated prices holds. An empty list is no change.
func Between(before, after *config.Config, now time.Time) []Block {
	from, to := blocksOf(before), blocksOf(after)
	list := []Block{}
	keys := slices.Concat(to.order, from.order)
	seen := make(map[key]bool)
	for _, k := range keys {
		if seen[k] {
			continue
		}
		seen[k] = true
		b := Block{Type: k.kind, Name: k.name, Kind: Altered}
		old, was := from.values[k]
		now, is := to.values[k]
		switch {
		case !was:
			b.Kind = Added
		case !is:
			b.Kind = Removed
		default:
			b.Fields = fields(old, now)
		}
		list = append(list, b)
	}
	for i := range list {
		switch list[i].Type {
		case "route":
			list[i].Typical = typical(before, after, list[i].Name, now)
		case "provider":
			process(before, after, &list[i])
		}
	}
	return slices.DeleteFunc(list, func(b Block) bool { return b.Kind == Altered && len(b.Fields) == 0 })
}

type key struct{ kind, name string }

// blocks are the blocks of a configuration as the JSON of people, so that a new block or setting is compared as well.
type blocks struct {
	order  []key
	values map[key]map[string]json.RawMessage // flat: "price.input"
}

func blocksOf(c *config.Config) blocks {
	all := blocks{values: make(map[key]map[string]json.RawMessage)}
	whole := members(encode(c))
	add := func(k key, value json.RawMessage) {
		flat := make(map[string]json.RawMessage)
		flatten(flat, "", value)
		delete(flat, "name")
		all.order = append(all.order, k)
		all.values[k] = flat
	}
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		switch value := whole[name]; {
		case name == "path" || name == "files" || name == "hash": // where it is from
		case len(value) > 0 && value[0] == '[':
			for _, item := range decode[[]json.RawMessage](value) {
				one := decode[struct{ Name string }](item)
				add(key{singular(name), one.Name}, item)
			}
		default:
			add(key{name, ""}, value)
		}
	}
	return all
}

// singular is what one of a list is called.
func singular(list string) string {
	if stem, ok := strings.CutSuffix(list, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(list, "s")
}

// flatten puts the values of nested objects under their paths. A list is one value.
func flatten(into map[string]json.RawMessage, path string, value json.RawMessage) {
	if inner := members(value); inner != nil {
		for name, v := range inner {
			flatten(into, strings.TrimPrefix(path+"."+name, "."), v)
		}
		return
	}
	into[path] = value
}

// members are those of an object, nil of any other value.
func members(value json.RawMessage) map[string]json.RawMessage {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	return decode[map[string]json.RawMessage](value)
}

func fields(before, after map[string]json.RawMessage) []Field {
	var list []Field
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if f := (Field{name, before[name], after[name]}); !bytes.Equal(f.Before, f.After) {
			list = append(list, f)
		}
	}
	return list
}

// typical is nil where the price of a route is as it was.
func typical(before, after *config.Config, route string, now time.Time) *Typical {
	t := &Typical{charge(before, route, now), charge(after, route, now)}
	if t.Before != nil && t.After != nil && *t.Before == *t.After {
		return nil
	}
	return t
}

func charge(c *config.Config, route string, now time.Time) *int64 {
	i := slices.IndexFunc(c.Routes, func(r config.Route) bool { return r.Name == route })
	if i < 0 {
		return nil
	}
	price, _ := c.Routes[i].In(now)
	at, _ := price.At(TypicalInput)
	const million = 1_000_000
	return new((TypicalInput*at.Input + TypicalOutput*at.Output + million - 1) / million)
}

// Replaced notes that the executable of a provider's plugin is another one; both texts are for people. Its process
// restarts.
func Replaced(list []Block, provider, before, after string) []Block {
	at := slices.IndexFunc(list, func(b Block) bool { return b.Type == "provider" && b.Name == provider })
	if at < 0 {
		at = len(list)
		list = append(list, Block{Kind: Altered, Type: "provider", Name: provider})
	}
	b := &list[at]
	b.Fields = append(b.Fields, Field{"executable", encode(before), encode(after)})
	if b.Process == "" {
		b.Process = Restarts
	}
	return list
}

// ProcessOf is what happens to the process of a provider when it takes the place of the one of its name.
func ProcessOf(before *config.Config, after *config.Provider) Process {
	old := find(before, after.Name)
	switch {
	case old == nil:
		return Starts
	case sameSettings(old, after) && old.Plugin == after.Plugin && old.SHA256 == after.SHA256 &&
		old.MaxMemory == after.MaxMemory && old.Confine == after.Confine:
		return ""
	}
	return Restarts
}

func find(c *config.Config, provider string) *config.Provider {
	i := slices.IndexFunc(c.Providers, func(p config.Provider) bool { return p.Name == provider })
	if i < 0 {
		return nil
	}
	return &c.Providers[i]
}

// process says what happens to a provider's process, and that a secret has changed, which no value shows.
func process(before, after *config.Config, b *Block) {
	old, now := find(before, b.Name), find(after, b.Name)
	if now == nil {
		b.Process = Stops
		return
	}
	b.Process = ProcessOf(before, now)
	if old == nil || sameSettings(old, now) {
		return
	}
	shown := slices.ContainsFunc(b.Fields, func(f Field) bool {
		return strings.HasPrefix(f.Name, "settings") || strings.HasPrefix(f.Name, "keys")
	})
	if !shown {
		b.Fields = append(b.Fields, Field{"settings", json.RawMessage(`"***"`), json.RawMessage(`"*** (changed)"`)})
	}
}

// sameSettings compares what processes get, also what is secret. Each key of a provider has a process of its own.
func sameSettings(a, b *config.Provider) bool {
	return bytes.Equal(a.Settings, b.Settings) && slices.EqualFunc(a.Keys, b.Keys, func(a, b config.Key) bool {
		return a.Name == b.Name && bytes.Equal(a.Settings, b.Settings)
	})
}

// encode writes what can always be written: values of config.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// decode reads what encode has written.
func decode[T any](text json.RawMessage) T {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		panic(err)
	}
	return v
}
