package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Portal says how people sign in to the pages of the gateway.
type Portal struct {
	// URL is where browsers find the portal, without a path; "": nobody has said.
	URL    string
	OIDC   []OIDC  // in file order
	Stripe *Stripe // nil: nobody pays here
	// EditConfiguration lets admins write the files of the configuration from their pages.
	EditConfiguration bool
}

// OIDC is an issuer of OpenID Connect by which people sign in. It holds a secret: it prints without it.
type OIDC struct {
	Name         string
	Issuer       string
	ClientID     string
	ClientSecret string   // "": of a public client
	Scopes       []string // beside openid
	GroupsClaim  string
	Operators    map[string]string // what members of a group are (OperatorRoles), by the group
	CA           string            // PEM of whose certificates are trusted, "" for those that the system trusts
}

// OperatorRoles are what people can be for the gateway.
var OperatorRoles = []string{"admin", "support", "read-only"}

const (
	defaultGroupsClaim = "groups"
	maxIssuers         = 10
	maxScopes          = 20
	maxGroups          = 100
)

// Digest tells an issuer from one that is to be asked anew for what it is.
func (o OIDC) Digest() string { return digestText(o.Name, o.Issuer, o.CA) }

// printedOIDC is what is printed of one.
type printedOIDC struct {
	Issuer       string            `json:"issuer"`
	ClientID     string            `json:"client_id"`
	ClientSecret string            `json:"client_secret,omitempty"`
	Scopes       []string          `json:"scopes"`
	GroupsClaim  string            `json:"groups_claim"`
	Operators    map[string]string `json:"operators,omitempty"`
	CA           string            `json:"ca,omitempty"`
}

// MarshalJSON prints it without its secret.
func (o OIDC) MarshalJSON() ([]byte, error) {
	secret := ""
	if o.ClientSecret != "" {
		secret = hidden
	}
	return json.Marshal(printedOIDC{o.Issuer, o.ClientID, secret, o.Scopes, o.GroupsClaim, o.Operators, digestOf(o.CA)})
}

// Format prints it without its secret under every verb.
func (o OIDC) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "oidc "+o.Name+" "+o.Issuer) }

// LogValue keeps its secret out of logs.
func (o OIDC) LogValue() slog.Value { return slog.StringValue(o.Name + " " + o.Issuer) }

// MarshalJSON prints the blocks by name, so that a changed one is told apart.
func (p Portal) MarshalJSON() ([]byte, error) {
	out := struct {
		URL    string          `json:"url,omitempty"`
		OIDC   map[string]OIDC `json:"oidc,omitempty"`
		Stripe *Stripe         `json:"stripe,omitempty"`
		Edit   bool            `json:"edit_configuration"`
	}{p.URL, make(map[string]OIDC), p.Stripe, p.EditConfiguration}
	for _, o := range p.OIDC {
		out.OIDC[o.Name] = o
	}
	return json.Marshal(out)
}

const (
	oidcExample = `oidc "company" {
  issuer        = "https://id.example.com"
  client_id     = "fareway"
  client_secret = env("OIDC_SECRET")
}`
	portalExample = "portal {\n  url = \"https://ai.example.com\"\n}"
)

var portalGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "url", kind: aText(512), instead: "commands that print links ask for it",
			example: `"https://ai.example.com"`,
			doc: "Where browsers find the portal, without a path: what commands write links to. People sign in wherever " +
				"the site answers."},
		{name: "edit_configuration", kind: aFlag, fallback: `false`, example: "true",
			doc: "Admins may write the files of the configuration from their pages, as `gateway apply` does. Who may that can " +
				"have the gateway run any program of `plugin_dir`, read any file that its user can, and send keys of upstreams " +
				"elsewhere: leave it off where an admin of the portal is not to be one of the machine."},
	},
	blocks: []blockRule{
		{name: "oidc", label: "name", many: true, body: &oidcGrammar, example: oidcExample,
			doc: "An issuer of OpenID Connect by which people sign in. Register `https://HOST/portal/oidc/NAME/callback` " +
				"there, with the name of the block."},
		{name: "stripe", body: &stripeGrammar, example: stripeExample,
			doc: "Accounts pay for credits through Stripe. Make a webhook endpoint there for `https://HOST/portal/stripe`, " +
				"with the events that the section below lists."},
	},
}

var oidcGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "issuer", kind: aText(512), required: true, example: `"https://id.example.com"`,
			doc: "The issuer, as its tokens name it; what it is stands in `/.well-known/openid-configuration` below. " +
				"`http://` only to this machine or a private network."},
		{name: "client_id", kind: aText(512), required: true, example: `"fareway"`,
			doc: "What the issuer knows the gateway as."},
		{name: "client_secret", kind: aText(4096), secret: true, instead: "the client is a public one",
			example: `env("OIDC_SECRET")`, doc: "The secret for that. PKCE is used in any case."},
		{name: "scopes", kind: aList, fallback: `["profile", "email"]`, example: `["profile", "email", "groups"]`,
			doc: "What is asked for beside `openid`. An issuer may tell groups for a scope of its own only."},
		{name: "groups_claim", kind: aText(256), fallback: `"groups"`, example: `"groups"`,
			doc: "The claim with the groups of somebody."},
		{name: "operators", kind: aMap, fallback: `{}`, example: `{ "gw-admins" = "admin" }`,
			doc: "What members of a group are: `admin`, `support` or `read-only`; of several groups the most. It is looked " +
				"at with each sign-in, and holds for sessions that began with one here. A person who is an operator " +
				"otherwise stays that."},
		{name: "ca", kind: aPEM, instead: "the system's", example: `file("ca.pem")`,
			doc: "The certificate of the authority that has signed the issuer's."},
	},
}

// portal decodes the block.
func (l *loader) portal(file *section) *Portal {
	var p *Portal
	for _, block := range file.blocks["portal"] {
		p = &Portal{}
		s := l.open(block, &portalGrammar)
		if v, ok := s.readHidden("url"); ok && s.asText(v, s.grammar.rule("url").kind.bytes, &p.URL) {
			if !strings.Contains(p.URL, "@") {
				s.show(v.at)
			}
			u, problem := baseURL(p.URL)
			if problem != "" {
				s.refuse(v, problem)
			} else {
				p.URL = u
			}
		}
		s.flag("edit_configuration", &p.EditConfiguration)
		names := make(map[string]hcl.Range)
		for _, b := range s.blocks["oidc"] {
			o := l.open(b, &oidcGrammar).oidc()
			o.Name, _ = s.label(b, names)
			p.OIDC = append(p.OIDC, o)
		}
		for _, b := range s.blocks["stripe"] {
			p.Stripe = l.open(b, &stripeGrammar).stripe()
		}
		if len(p.OIDC) > maxIssuers {
			s.fail(s.blocks["oidc"][maxIssuers].DefRange(), "Too many issuers", fmt.Sprintf("There may be %d oidc blocks. "+
				"Let one issuer ask the others.", maxIssuers))
		}
	}
	return p
}

// baseURL is a scheme and a host, and what is wrong with one, beginning with a verb.
func baseURL(text string) (base, problem string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return "", "must be a whole url, as in \"https://ai.example.com\""
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", "must be a scheme and a host, and nothing behind"
	}
	return u.Scheme + "://" + u.Host, ""
}

func (s *section) oidc() OIDC {
	o := OIDC{Scopes: []string{"profile", "email"}, GroupsClaim: defaultGroupsClaim}
	if v, ok := s.readHidden("issuer"); ok && s.asText(v, s.grammar.rule("issuer").kind.bytes, &o.Issuer) {
		if !strings.Contains(o.Issuer, "@") { // else there may be a password in it
			s.show(v.at)
		}
		u, err := url.Parse(o.Issuer)
		switch {
		case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
			s.refuse(v, "must be a whole url, as in \"https://id.example.com\"")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			s.refuse(v, "must have no user, and nothing behind ? or #")
		case u.Scheme == "http" && !isNear(u.Hostname()):
			s.refuse(v, "must begin with https://: with http:// anybody on the way says who signs in. Only this machine and "+
				"private networks go without")
		}
	}
	s.text("client_id", &o.ClientID)
	s.secretText("client_secret", &o.ClientSecret)
	if s.attributes["scopes"] != nil {
		scopes, places := s.texts("scopes", maxGroups)
		o.Scopes = []string{}
		for i, scope := range scopes {
			if scope == "" || strings.ContainsFunc(scope, func(r rune) bool {
				return r <= ' ' || r > '~' || r == '"' || r == '\\'
			}) {
				s.fail(places[i], "Invalid scopes", "A scope is a word of ASCII letters, digits and signs, as in \"email\".")
			} else if scope != "openid" && !slices.Contains(o.Scopes, scope) {
				o.Scopes = append(o.Scopes, scope)
			}
		}
		if len(o.Scopes) > maxScopes {
			s.fail(places[maxScopes], "Too many scopes", fmt.Sprintf("There may be %d.", maxScopes))
		}
	}
	s.text("groups_claim", &o.GroupsClaim)
	o.Operators = s.groups()
	s.pem("ca", &o.CA)
	return o
}

// groups reads what members of groups are.
func (s *section) groups() map[string]string {
	v, ok := s.read("operators")
	if !ok {
		return nil
	}
	if !isMap(v.Type()) {
		s.refuseType(v, `a map, as in { "gw-admins" = "admin" }`)
		return nil
	}
	groups := make(map[string]string)
	places, members := v.keys(s), v.AsValueMap()
	for _, group := range slices.Sorted(maps.Keys(members)) {
		role := value{Value: members[group], name: v.name, expr: v.expr, at: v.at, outside: v.outside}
		if at, ok := places[group]; ok {
			role.at = at
		}
		switch {
		case group == "":
			s.refuse(role, "must have names of groups as its keys")
		case role.Type() != cty.String || role.IsNull():
			s.refuse(role, "must be a map of texts, each one of "+enumerate(OperatorRoles))
		case s.choose(role, role.AsString(), OperatorRoles):
			groups[group] = role.AsString()
		}
	}
	if len(groups) > maxGroups {
		s.refuse(v, fmt.Sprintf("must have at most %d groups", maxGroups))
	}
	return groups
}

var (
	_ json.Marshaler = OIDC{}
	_ fmt.Formatter  = OIDC{}
	_ slog.LogValuer = OIDC{}
)
