package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// Key is one of several credentials of a provider.
type Key struct {
	Name   string
	Weight int64 // its share of the conversations, against the weights of the other keys
	// Settings are those of the provider with this key's own: may hold secrets, never print.
	Settings settings.Values

	// Identity hashes what makes it this credential, with no setting but its own: an equal one is the same key.
	Identity string

	printable settings.Values // its own, without secrets
}

// MarshalJSON prints the key's own settings with secrets as ***.
func (k Key) MarshalJSON() ([]byte, error) {
	shown := k.printable
	if shown == nil {
		shown = []byte(`"` + hidden + `"`)
	}
	return json.Marshal(struct {
		Name     string          `json:"name"`
		Weight   int64           `json:"weight"`
		Settings json.RawMessage `json:"settings"`
	}{k.Name, k.Weight, shown})
}

// Format prints the key without secrets under every verb, as Provider's does.
func (k Key) Format(f fmt.State, _ rune) {
	text, err := k.MarshalJSON()
	if err != nil {
		text = []byte(hidden)
	}
	// An error of the writer reaches whoever gave the writer to fmt.
	_, _ = io.WriteString(f, "key "+string(text))
}

const (
	weightSetting = "weight" // in a key block, beside the plugin's own settings
	maxKeyWeight  = 1000
)

// secretsOf are the settings that a key block may hold.
func secretsOf(schema *settings.Schema) []settings.Attribute {
	var secrets []settings.Attribute
	for _, a := range schema.Attributes {
		if a.Secret && a.Name != weightSetting {
			secrets = append(secrets, a)
		}
	}
	return secrets
}

// keyed is the schema of a config block beside key blocks: a credential that it needs may be in those.
func keyed(schema *settings.Schema) *settings.Schema {
	out := *schema
	out.Attributes = slices.Clone(schema.Attributes)
	for i := range out.Attributes {
		a := &out.Attributes[i]
		a.Required = a.Required && !a.Secret
	}
	return &out
}

// keys decodes the key blocks of a provider, whose config block came to shared. They are in file order.
func (s *section) keys(p *Provider, schema *settings.Schema, shared decoded) {
	blocks := s.blocks["key"]
	secrets := secretsOf(schema)
	if len(secrets) == 0 {
		s.fail(blocks[0].TypeRange, fmt.Sprintf("Plugin %q takes no keys", p.Plugin),
			"A key block holds credentials of the service, and this plugin has no setting for one. Remove the block.")
		return
	}
	names := make([]string, len(secrets))
	g := &grammar{noun: "setting", attributes: slices.Clone(keyGrammar.attributes)}
	for i, a := range secrets {
		names[i] = a.Name
		g.attributes = append(g.attributes, attributeRule{name: a.Name, example: settingExample(&a)})
	}
	taken := make(map[string]hcl.Range)
	same := make(map[string]string) // the name of a key by its Identity
	for _, block := range blocks {
		key := Key{Weight: 1}
		key.Name, _ = s.label(block, taken)
		what := fmt.Sprintf("key %q of %s", key.Name, s.what)
		bad := s.diags.errors()
		in := s.section(what, block.DefRange(), s.withoutOthers(block.Body, schema, names), g)
		if weight := in.attributes[weightSetting]; weight != nil {
			if _, number := weight.Expr.(*hclsyntax.LiteralValueExpr); number {
				s.show(weight.Expr.Range())
			}
		}
		in.integer(weightSetting, &key.Weight)
		own, merged := newDecoded(), maps.Clone(shared.real)
		for i := range secrets {
			in.keySetting(&secrets[i], block, own, shared)
		}
		if len(own.real) == 0 {
			if s.diags.errors() == bad {
				s.fail(block.DefRange(), "Key without a credential", fmt.Sprintf("Give it one, for example: %s = %s", names[0],
					settingExample(&secrets[0])))
			}
			continue
		}
		var values settings.Values
		values, key.printable = own.encode()
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s", p.Plugin, values))
		key.Identity = hex.EncodeToString(sum[:])
		if first := same[key.Identity]; first != "" {
			s.warn(block.DefRange(), "The same credential twice", fmt.Sprintf("Key %q has it, too. Two names for one "+
				"credential do not have twice its limits.", first))
		}
		same[key.Identity] = key.Name
		maps.Copy(merged, own.real)
		key.Settings = encodeObject(merged)
		p.Keys = append(p.Keys, key)
	}
}

// keySetting decodes one credential of a key block.
func (s *section) keySetting(a *settings.Attribute, block *hclsyntax.Block, own, shared decoded) {
	attr := s.attributes[a.Name]
	_, inConfig := shared.real[a.Name]
	switch {
	case attr == nil && a.Required && !inConfig:
		s.fail(block.DefRange(), "Missing "+a.Name, fmt.Sprintf("%s needs it, for example: %s = %s", capital(s.what), a.Name,
			settingExample(a)))
	case attr == nil:
	case inConfig:
		s.fail(attr.NameRange, fmt.Sprintf("%s is set in config, too", a.Name),
			"It cannot be both for all keys and for this one. Remove it from the config block.")
	default:
		s.setting(a, own)
	}
}

// withoutOthers is a key block's body without the plugin's other settings, which are reported.
func (s *section) withoutOthers(body *hclsyntax.Body, schema *settings.Schema, secrets []string) *hclsyntax.Body {
	out := *body
	out.Attributes = maps.Clone(body.Attributes)
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		known := slices.ContainsFunc(schema.Attributes, func(a settings.Attribute) bool { return a.Name == name })
		if !known || name == weightSetting || slices.Contains(secrets, name) {
			continue
		}
		at := body.Attributes[name].NameRange
		s.show(at)
		s.fail(at, fmt.Sprintf("%s is no credential", name), fmt.Sprintf("A key block holds %s and weight. What differs in "+
			"anything else is another provider; what does not belongs into the config block.", strings.Join(secrets, ", ")))
		delete(out.Attributes, name)
	}
	return &out
}
