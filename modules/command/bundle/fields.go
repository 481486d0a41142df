package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
		key_last4 last4 key_state network protocols region retention standbys default_profile sum product prices format from
	`) {
		fields[name] = keep
	}
	for _, name := range strings.Fields(`
		reason text problem why error err msg message detail summary what when behind refused refusal failure
		last_failure config_by by data config path files config_files file aside address addr host source
		folder drift unclassified upstream upstreams diagnostics about issuer panic stack domain identifier identifiers
		command
	`) {
		fields[name] = text
	}
}

// ofMaps are fields whose values are maps of strings by what those are about: what becomes of such a map becomes of
// each.
var ofMaps = map[string]bool{"cgroup": true, "limits": true}

// containers are the fields whose values are looked into: maps, and lists of maps. Into others nobody has looked, and
// what is called "name" or "text" in there may be a prompt.
var containers = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`
		accounts after attempts backup backups candidates certificates cost cost_price damage decision diagnostics
		disk elsewhere entries estimate failed failed_load failures files hedge hold if_easier if_harder keys kinds
		last_crash last_failure ledger ledger_loss limiter log lost memory_kib missing model nodes predicted_by price
		price_versions process profile providers pruned quality_by_kind redacted rejected reply request requests results
		routes servers settlement shadow spool status_kib steps strategies tiers tokens traffic training trial undecided
		upstreams usage violations
	`) {
		containers[name] = true
	}
}

// notInLogs are fields that are harmless in what the admin API says, where their values are of closed lists or the
// gateway's own words, and may be anything in a line of log.
var notInLogs = map[string]bool{"text": true, "message": true, "detail": true, "summary": true, "what": true,
	"when": true, "about": true, "of": true, "unit": true, "result": true, "content": true, "data": true,
	"source": true, "command": true, "name": true, "path": true, "stack": true, "panic": true}

// inPluginLines are what is left of a line that a plugin has written: all the rest is its own, and may be a prompt.
var inPluginLines = map[string]bool{"level": true, "ts": true, "logger": true, "from": true, "plugin": true,
	"provider": true}

// word is a name as the configuration has them.
var word = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// JSON is a value as a bundle has it.
func (r *Redactor) JSON(v any, found map[string]int) ([]byte, error) {
	tree, err := parse(v)
	if err != nil {
		return nil, err
	}
	r.learn(tree)
	return r.write(tree, "  ", found), nil
}

// write is a value as JSON.
func (r *Redactor) write(tree any, indent string, found map[string]int) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(r.treat("", tree, found)); err != nil { // it was read from JSON
		panic(fmt.Sprintf("writing JSON: %v", err))
	}
	return out.Bytes()
}

// readLine reads a line of JSON, and learns from it; ok is false of another line.
func (r *Redactor) readLine(line []byte) (tree map[string]any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(&tree) != nil || tree == nil {
		return nil, false
	}
	if from, _ := tree["from"].(string); from != "stderr" && from != "plugin" {
		r.learn(tree)
	}
	return tree, true
}

// line is a line of log as a bundle has it.
func (r *Redactor) line(tree map[string]any, found map[string]int) []byte {
	from, _ := tree["from"].(string)
	byPlugin := from == "stderr" || from == "plugin"
	attempt := tree["msg"] == "attempt failed"
	out := make(map[string]any, len(tree))
	for name, below := range tree {
		text, isText := below.(string)
		switch {
		case byPlugin:
			if !inPluginLines[name] || isText && name != "ts" && !word.MatchString(text) {
				found["what plugins have written"]++
				continue
			}
		case notInLogs[name], !isText && isContainer(below):
			found["fields that are on no list"]++
			if name = r.fieldName(name, found); name != "" {
				out[name] = leftOut
			}
			continue
		case attempt && name == "error" && isText:
			below = r.saidByService(text, found)
		}
		out[name] = below
	}
	if byPlugin {
		out["msg"] = leftOut
		out["from"] = from
	}
	r.public = true
	defer func() { r.public = false }()
	return r.write(out, "", found)
}

func isContainer(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return true
	case []any:
		return slices.ContainsFunc(v, isContainer)
	}
	return false
}

// ownPhrases are what the gateway's side says of a service that could not be reached, or did not answer.
var ownPhrases = regexp.MustCompile(`connection refused|no such host|i/o timeout|connection reset by peer|` +
	`network is unreachable|no route to host|context deadline exceeded|TLS handshake|x509: certificate|` +
	`certificate has expired|unexpected EOF|broken pipe|the upstream answered with an error|no API|server misbehaving`)

// statusOf finds the HTTP status at the end of what is said of a failure.
var statusOf = regexp.MustCompile(`\(status \d{3}\)`)

// kindOf finds the kind of a failure at its start.
var kindOf = regexp.MustCompile(`^[a-z_]{3,40}: `)

// saidByService is what is left of why an attempt failed. The words are the service's, which may repeat the prompt.
func (r *Redactor) saidByService(text string, found map[string]int) string {
	kind := strings.TrimSuffix(kindOf.FindString(text), ": ")
	parts := append([]string{kind}, ownPhrases.FindAllString(text, 4)...)
	parts = append(parts, statusOf.FindString(text))
	parts = slices.Compact(slices.DeleteFunc(parts, func(part string) bool { return part == "" }))
	found["what services have said"]++
	return strings.Join(append(parts, leftOut), ": ")
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
		if field != "" && !containers[field] && !ofMaps[field] && len(v) > 0 {
			found["fields that are on no list"]++
			return leftOut
		}
		out := make(map[string]any, len(v))
		for name, below := range v {
			as := r.fieldName(name, found)
			if field == "accounts" { // a map by account has accounts for its fields
				as = r.name(account, name)
			}
			text, isText := below.(string)
			switch {
			case ofMaps[field]:
				name = field
			case field == "accounts", field == "servers": // maps by name
				name = ""
			case field == "last_failure" && name == "text" && isText:
				below = r.saidByService(text, found)
			case field == "last_crash" && name == "why" && isText:
				below = leftOut // its last words; the cause stands beside it
			}
			out[as] = r.treat(name, below, found)
		}
		return out
	case []any:
		if field != "" && !containers[field] && (fields[field] == leaveOut || slices.ContainsFunc(v, isContainer)) &&
			slices.ContainsFunc(v, isNoNumber) {
			found["fields that are on no list"]++
			return leftOut
		}
		out := make([]any, len(v))
		for i, below := range v {
			out[i] = r.treat(field, below, found)
		}
		return out
	case string:
		return r.treatText(field, v, found)
	case json.Number:
		if text := v.String(); len(text) >= leastSecret && r.known(text, found) != text {
			return leftOut
		}
	}
	return tree // numbers, true, false, null
}

func isNoNumber(v any) bool {
	_, isNumber := v.(json.Number)
	return !isNumber
}

// fieldName is the name of a field as a bundle has it.
func (r *Redactor) fieldName(name string, found map[string]int) string {
	if clean := r.known(name, found); clean != name || fieldWord.MatchString(name) {
		return clean
	}
	return r.ids(r.guess(name, found))
}

// fieldWord is what the gateway's own fields are called.
var fieldWord = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// longestKept is how long a name or a word of a closed list is at most, in bytes: what is longer is something else.
const longestKept = 256

func (r *Redactor) treatText(field, v string, found map[string]int) string {
	if v == "" || v == leftOut {
		return v
	}
	if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
		return v
	}
	switch fields[field] {
	case keep:
		if len(v) > longestKept || strings.ContainsAny(v, "\r\n") {
			found["fields that are too long for what they are"]++
			return leftOut
		}
		return r.ids(r.guess(r.known(v, found), found))
	case text:
		return r.Text(v, found)
	case nameOfAccount:
		return r.known(r.name(account, v), found)
	case nameOfKey:
		return r.known(r.name(key, v), found)
	case nameOfClient:
		return r.known(r.name(client, v), found)
	case nameOfMachine:
		return r.known(r.name(machine, v), found)
	}
	found["fields that are on no list"]++
	return leftOut
}
