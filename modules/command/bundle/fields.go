package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// treatment is what becomes of a string in JSON.
type treatment int

const (
	leaveOut treatment = iota // the zero value: what nobody has looked at is not shown
	keep                      // it is from a closed list, or a number, or a hash, or a name of the configuration
	text                      // it is for people, and may have anything in it
	nameOfAccount
	nameOfKey
	nameOfClient
	nameOfMachine
)

// leftOut stands for what is on no list.
const leftOut = "[left out]"

// fields says what becomes of strings in JSON by the name of their field: of the admin API's replies, of log lines, and
// of what this package writes itself. What is not here is left out. Elements of a list are as the list.
var fields = map[string]treatment{
	"account": nameOfAccount, "account_id": nameOfAccount,
	"key": nameOfKey, "key_id": nameOfKey,
	"client_ip": nameOfClient, "remote_ip": nameOfClient,
	"machine": nameOfMachine, "label": nameOfMachine, "hostname": nameOfMachine,
}

func init() {
	for _, name := range strings.Fields(`
		id request request_id attempt pid upstream_request_id trace_id hash prev sha256 replaced_by config_hash
		name provider provider_key plugin route model routes providers plans profile strategy strategies kind kinds rule
		category state outcome mode verdict level logger severity endpoint family plan result cause carry durability book
		choice signals limit code of unit first second specialties needs offers waits stay missed confined unconfined
		capabilities violations chore filesystem cgroup limits proxies load version go os arch kernel zone modules commit
		key_last4 last4 key_state network protocols region retention standbys default_profile sum product prices format
	`) {
		fields[name] = keep
	}
	for _, name := range strings.Fields(`
		reason text problem why error err msg message detail summary what when behind refused refusal failure
		last_failure last_violation config_by by data config path files config_files file aside address addr host source
		folder drift unclassified upstream upstreams diagnostics about issuer panic stack domain identifier identifiers
		command
	`) {
		fields[name] = text
	}
}

// ofMaps are fields whose values are maps of strings by what those are about: what becomes of such a map becomes of
// each.
var ofMaps = map[string]bool{"cgroup": true, "limits": true}

// JSON is a value as a bundle has it.
func (r *Redactor) JSON(v any, found map[string]int) ([]byte, error) {
	tree, err := parse(v)
	if err != nil {
		return nil, err
	}
	r.learn(tree)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r.treat("", tree, found)); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return out.Bytes(), nil
}

// Line is a line of JSON as a bundle has it; ok is false of another line.
func (r *Redactor) Line(line []byte, found map[string]int) (out []byte, ok bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var tree map[string]any
	if d.Decode(&tree) != nil {
		return nil, false
	}
	r.learn(tree)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(r.treat("", tree, found)) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

func parse(v any) (tree any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		err = d.Decode(&tree)
	}
	if err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return tree, nil
}

// learn finds which names are of the same account or key.
func (r *Redactor) learn(tree any) {
	switch v := tree.(type) {
	case map[string]any:
		for _, pair := range [...]struct {
			k        kind
			id, name string
		}{{account, "account_id", "account"}, {key, "key_id", "key"}} {
			id, _ := v[pair.id].(string)
			name, _ := v[pair.name].(string)
			r.alias(pair.k, id, name)
		}
		for _, below := range v {
			r.learn(below)
		}
	case []any:
		for _, below := range v {
			r.learn(below)
		}
	}
}

// treat does with a value what the name of its field says.
func (r *Redactor) treat(field string, tree any, found map[string]int) any {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, below := range v {
			// A map by account has accounts for its fields.
			as := name
			if field == "accounts" {
				as = r.name(account, name)
			}
			if ofMaps[field] {
				name = field
			}
			out[r.Text(as, found)] = r.treat(name, below, found)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, below := range v {
			out[i] = r.treat(field, below, found)
		}
		return out
	case string:
		return r.treatText(field, v, found)
	}
	return tree // numbers, true, false, null
}

func (r *Redactor) treatText(field, v string, found map[string]int) string {
	if v == "" {
		return v
	}
	if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
		return v
	}
	switch fields[field] {
	case keep:
		return r.guess(r.known(v, found), found)
	case text:
		return r.Text(v, found)
	case nameOfAccount:
		return r.name(account, v)
	case nameOfKey:
		return r.name(key, v)
	case nameOfClient:
		return r.name(client, v)
	case nameOfMachine:
		return r.name(machine, v)
	}
	found["fields that are on no list"]++
	return leftOut
}
