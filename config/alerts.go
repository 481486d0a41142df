package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Alerts say whom the gateway tells of what somebody must hear of (AlertEvents), and from when on.
type Alerts struct {
	// BalanceLow is below how many credits an account's balance is low; 0: never.
	BalanceLow int64
	// CapNear is from which part of a cap of an account on, in percent, the cap is near; 0: never.
	CapNear  int64
	Webhooks []Webhook // in file order
	Mails    []Mail    // in file order
}

// Webhook is where messages are posted, as Standard Webhooks has it. It holds secrets: it prints without them.
type Webhook struct {
	Name string
	URL  string
	// Secrets sign each message, all of them: where there are several, one is being replaced.
	Secrets []string
	Timeout time.Duration
	CA      string   // PEM of whose certificates are trusted, "" for those that the system trusts
	Events  []string // by their names, in the order of AlertEvents; empty: all

	written bool // the url stands in the file
}

// Mail is whom messages are mailed to. It holds a password: it prints without.
type Mail struct {
	Name               string
	Host               string // of the server
	Port               uint16
	TLS                MailTLS
	From               string   // as in the header From
	To                 []string // addresses; none where it is for accounts only
	Accounts           bool     // each account's own addresses are mailed what is about it
	Links              bool     // it mails the portal's links
	Username, Password string
	Timeout            time.Duration
	CA                 string
	Events             []string
}

// MailTLS says how the way to a mail server is secured.
type MailTLS string

// The ways: TLS is begun on the connection, which has to succeed; the connection is TLS from its first byte; or it is
// not secured.
const (
	MailStartTLS MailTLS = "starttls"
	MailImplicit MailTLS = "implicit"
	MailPlain    MailTLS = "none"
)

const (
	defaultBalanceLow   = 100
	defaultCapNear      = 80
	defaultAlertTimeout = 15 * time.Second
	defaultMailTimeout  = 30 * time.Second // some servers let those wait who call
	maxAlertTimeout     = time.Minute
	maxDestinations     = 20 // of each kind
	maxRecipients       = 50
	maxHookSecrets      = 4
	// Of secrets of webhooks, in bytes before base64: the specification's bounds.
	minHookSecret, longestHookSecret = 24, 64
)

// Hears reports whether a destination with this filter is told of an event.
func hears(events []string, event string) bool {
	return len(events) == 0 || slices.Contains(events, event)
}

// Hears reports whether it is told of an event.
func (w *Webhook) Hears(event string) bool { return hears(w.Events, event) }

// Hears reports whether its addresses are told of an event.
func (m *Mail) Hears(event string) bool { return len(m.To) > 0 && hears(m.Events, event) }

// HearOwners reports whether the accounts' own addresses are told of an event.
func (m *Mail) HearOwners(event string) bool {
	return m.Accounts && slices.Contains(accountEvents, event) && hears(m.Events, event)
}

// MailsLinks is what mails the portal's links, nil for nothing.
func (c *Config) MailsLinks() *Mail {
	if c.Portal == nil || c.Portal.URL == "" {
		return nil
	}
	for i := range c.Alerts.Mails {
		if c.Alerts.Mails[i].Links {
			return &c.Alerts.Mails[i]
		}
	}
	return nil
}

// Hear reports whether anybody is told of an event.
func (a *Alerts) Hear(event string) bool {
	for i := range a.Webhooks {
		if a.Webhooks[i].Hears(event) {
			return true
		}
	}
	for i := range a.Mails {
		if a.Mails[i].Hears(event) || a.Mails[i].HearOwners(event) {
			return true
		}
	}
	return false
}

// Address is where the webhook is, without what may be a secret: the path of a url that came from elsewhere.
func (w Webhook) Address() string {
	if w.written {
		return w.URL
	}
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" {
		return hidden
	}
	return u.Scheme + "://" + u.Host + "/" + hidden
}

// Server is host:port of the mail server.
func (m Mail) Server() string { return net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port))) }

// Digest tells a webhook from one of which anything is not what it was.
func (w Webhook) Digest() string {
	return digestText(w.Name, w.URL, strings.Join(w.Secrets, "\n"), w.Timeout.String(), w.CA, strings.Join(w.Events, "\n"))
}

// Digest is as that of a webhook.
func (m Mail) Digest() string {
	return digestText(m.Name, m.Server(), string(m.TLS), m.From, strings.Join(m.To, "\n"), m.Username, m.Password,
		strconv.FormatBool(m.Accounts), strconv.FormatBool(m.Links), m.Timeout.String(), m.CA, strings.Join(m.Events, "\n"))
}

func digestText(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// printedWebhook is what is printed of one.
type printedWebhook struct {
	URL     string   `json:"url"`
	Secret  []string `json:"secret"` // how many there are
	Timeout string   `json:"timeout"`
	CA      string   `json:"ca,omitempty"`
	Events  []string `json:"events,omitempty"`
}

type printedMail struct {
	Server   string   `json:"server"`
	TLS      MailTLS  `json:"tls"`
	From     string   `json:"from"`
	To       []string `json:"to"`
	Accounts bool     `json:"accounts"`
	Links    bool     `json:"links"`
	Username string   `json:"username,omitempty"`
	Timeout  string   `json:"timeout"`
	CA       string   `json:"ca,omitempty"`
	Events   []string `json:"events,omitempty"`
}

func (w *Webhook) printed() printedWebhook {
	return printedWebhook{w.Address(), slices.Repeat([]string{hidden}, len(w.Secrets)), w.Timeout.String(),
		digestOf(w.CA), w.Events}
}

func (m *Mail) printed() printedMail {
	return printedMail{m.Server(), m.TLS, m.From, m.To, m.Accounts, m.Links, m.Username, m.Timeout.String(),
		digestOf(m.CA), m.Events}
}

// MarshalJSON prints it without secrets.
func (w Webhook) MarshalJSON() ([]byte, error) { return json.Marshal(w.printed()) }

// MarshalJSON prints it without its password.
func (m Mail) MarshalJSON() ([]byte, error) { return json.Marshal(m.printed()) }

// Format prints it without secrets under every verb.
func (w Webhook) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "webhook "+w.Name+" "+w.Address())
}

// Format prints it without its password under every verb.
func (m Mail) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "mail "+m.Name+" "+m.Server()) }

// LogValue keeps secrets out of logs.
func (w Webhook) LogValue() slog.Value { return slog.StringValue(w.Name + " " + w.Address()) }

// LogValue keeps the password out of logs.
func (m Mail) LogValue() slog.Value { return slog.StringValue(m.Name + " " + m.Server()) }

// MarshalJSON prints the blocks by name, so that a changed one is told apart.
func (a Alerts) MarshalJSON() ([]byte, error) {
	out := struct {
		BalanceLow int64                     `json:"balance_low_credits"`
		CapNear    int64                     `json:"cap_near_percent"`
		Webhooks   map[string]printedWebhook `json:"webhook,omitempty"`
		Mails      map[string]printedMail    `json:"mail,omitempty"`
	}{a.BalanceLow, a.CapNear, make(map[string]printedWebhook), make(map[string]printedMail)}
	for i := range a.Webhooks {
		out.Webhooks[a.Webhooks[i].Name] = a.Webhooks[i].printed()
	}
	for i := range a.Mails {
		out.Mails[a.Mails[i].Name] = a.Mails[i].printed()
	}
	return json.Marshal(out)
}

const (
	webhookExample = `webhook "ops" {
  url    = "https://hooks.example.com/fareway"
  secret = env("HOOK_SECRET")
}`
	mailExample = `mail "ops" {
  server   = "smtp.example.com:587"
  from     = "fareway@example.com"
  to       = ["ops@example.com"]
  username = "fareway@example.com"
  password = env("SMTP_PASSWORD")
}`
	alertsExample = `alerts {
  webhook "ops" {
    url    = "https://hooks.example.com/fareway"
    secret = env("HOOK_SECRET")
  }
}`
	hookSecretAdvice = "`echo \"whsec_$(openssl rand -base64 32)\"` makes one"
)

var alertsGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "balance_low_credits", kind: anInteger(0, maxCredits), fallback: `100`, example: "500",
			doc: "Below how many credits the balance of an account is low (`balance_low`); what running requests hold does " +
				"not count. An account is looked at when it is charged. 0: never."},
		{name: "cap_near_percent", kind: anInteger(0, 99), fallback: `80`, example: "90",
			doc: "From which part of its spend cap or token budget on an account is near it (`cap_near`). 0: never."},
	},
	blocks: []blockRule{
		{name: "webhook", label: "name", many: true, body: &webhookGrammar, example: webhookExample,
			doc: "Where messages are posted as [Standard Webhooks](https://www.standardwebhooks.com) has it."},
		{name: "mail", label: "name", many: true, body: &mailGrammar, example: mailExample,
			doc: "Whom messages are mailed to, and by which server. What comes within a minute is in one mail."},
	},
}

var eventsRule = attributeRule{name: "events", kind: aListOf(AlertEventNames()...), instead: "all",
	example: `["provider_down", "ledger_spooling"]`,
	doc:     "Of what it hears. The events are below; `gateway alert list` has them, too."}

var alertCARule = attributeRule{name: "ca", kind: aPEM, instead: "the system's", example: `file("ca.pem")`,
	doc: "The certificate of the authority that has signed the receiver's."}

var webhookGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "url", kind: aText(2048), required: true, example: `"https://hooks.example.com/fareway"`,
			doc: "Where messages are posted. `http://` only to this machine or a private network. Redirects are not " +
				"followed. Of one that is a secret itself write `env(\"HOOK_URL\")`: only its host is ever shown."},
		{name: "secret", kind: kind{name: "text, or list of up to 4", hcl: "any"}, required: true, secret: true,
			example: `env("HOOK_SECRET")`,
			doc: "What signs each message: `whsec_` and the base64 of 24 to 64 bytes; " + hookSecretAdvice + ". With a list " +
				"each of them signs, so that a receiver takes the new one before the old one goes."},
		{name: "timeout", kind: aDuration(maxAlertTimeout), fallback: `"15s"`, example: `"15s"`,
			doc: "How long one attempt to deliver a message may take."},
		alertCARule, eventsRule,
	},
}

var mailGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "server", kind: aText(512), required: true, example: `"smtp.example.com:587"`,
			doc: "Host and port. Without a port it is 587, or 465 with `tls = \"implicit\"`."},
		{name: "tls", kind: oneOf(string(MailStartTLS), string(MailImplicit), string(MailPlain)),
			instead: "`\"starttls\"`; with port 465 `\"implicit\"`", example: `"starttls"`,
			doc: "`\"starttls\"`: TLS is begun on the connection, and nothing is sent where that fails. `\"implicit\"`: the " +
				"connection is TLS from its first byte. `\"none\"`: nothing is secured; only to this machine or a private " +
				"network."},
		{name: "from", kind: aText(320), required: true, example: `"Fareway <fareway@example.com>"`,
			doc: "Whom the mail is from."},
		{name: "to", kind: aList, instead: "required, but with `accounts` or `links`", example: `["ops@example.com"]`,
			doc: "The addresses that it is for, up to 50."},
		{name: "accounts", kind: aFlag, fallback: `false`, example: "true",
			doc: "Whether accounts' own addresses (`fareway gateway account set-mail`) are mailed what is about their " +
				"account, " +
				"in words for its owner. Each account gets its own, at most 4 mails a day of one event, and nothing that is the " +
				"operator's. `events` narrows it. One block only may have it."},
		{name: "links", kind: aFlag, fallback: `false`, example: "true",
			doc: "Whether the links of the portal are mailed by it, too: invitations, and new passwords, for which people can " +
				"ask on the page for signing in, who don't run the gateway. It needs `url` in the block `portal`, for no link " +
				"may lead where a visitor says. One block only may have it."},
		{name: "username", kind: aText(320), instead: "nobody logs in", example: `"fareway@example.com"`,
			doc: "Who logs in at the server."},
		{name: "password", kind: aText(4096), secret: true, instead: "nobody logs in", example: `env("SMTP_PASSWORD")`,
			doc: "The password for that."},
		{name: "timeout", kind: aDuration(maxAlertTimeout), fallback: `"30s"`, example: `"30s"`,
			doc: "How long one attempt to deliver a mail may take."},
		alertCARule, eventsRule,
	},
}

// alerts decodes the block.
func (l *loader) alerts(file *section) (a Alerts) {
	for _, block := range file.blocks["alerts"] {
		a = Alerts{BalanceLow: defaultBalanceLow, CapNear: defaultCapNear}
		s := l.open(block, &alertsGrammar)
		s.integer("balance_low_credits", &a.BalanceLow)
		s.integer("cap_near_percent", &a.CapNear)
		hooks, mails := make(map[string]hcl.Range), make(map[string]hcl.Range)
		for _, b := range s.blocks["webhook"] {
			w := l.open(b, &webhookGrammar).webhook()
			w.Name, _ = s.label(b, hooks)
			a.Webhooks = append(a.Webhooks, w)
		}
		for _, b := range s.blocks["mail"] {
			m := l.open(b, &mailGrammar).mail()
			m.Name, _ = s.label(b, mails)
			if m.Accounts && slices.ContainsFunc(a.Mails, func(other Mail) bool { return other.Accounts }) {
				s.fail(b.DefRange(), "Accounts mailed twice", "Another mail block above has accounts = true, and who has an "+
					"account would get each mail from both. Leave it in one of them.")
			}
			if m.Links && slices.ContainsFunc(a.Mails, func(other Mail) bool { return other.Links }) {
				s.fail(b.DefRange(), "Links mailed twice", "Another mail block above has links = true. Leave it in one of them.")
			}
			if m.Links && (l.config.Portal == nil || l.config.Portal.URL == "") {
				s.fail(b.DefRange(), "Links to nowhere", "With links = true the portal's links are mailed, and they begin with "+
					"its url: write portal { url = \"https://ai.example.com\" }.")
			}
			if m.Links && l.config.Portal != nil && isInClear(l.config.Portal.URL) {
				s.fail(b.DefRange(), "Links in clear", "The portal's url begins with http://, so that anybody on the way could "+
					"use a link first. Only this machine and private networks go without https://.")
			}
			a.Mails = append(a.Mails, m)
		}
		for what, n := range map[string]int{"webhook": len(a.Webhooks), "mail": len(a.Mails)} {
			if n > maxDestinations {
				s.fail(s.blocks[what][maxDestinations].DefRange(), "Too many destinations", fmt.Sprintf("There may be %d %s "+
					"blocks. Let a receiver of yours pass messages on.", maxDestinations, what))
			}
		}
	}
	return a
}

func (s *section) webhook() Webhook {
	w := Webhook{Timeout: defaultAlertTimeout}
	s.duration("timeout", &w.Timeout)
	s.pem("ca", &w.CA)
	w.Events = s.events()
	w.Secrets = s.hookSecrets()
	v, ok := s.readHidden("url")
	if !ok || !s.asText(v, s.grammar.rule("url").kind.bytes, &w.URL) {
		return w
	}
	w.written = !v.outside
	if w.written && !strings.Contains(w.URL, "@") { // else there may be a password in it
		s.show(v.at)
	}
	if problem := hookProblem(w.URL); problem != "" {
		s.refuse(v, problem)
	}
	return w
}

// hookProblem is what is wrong with the url of a webhook, beginning with a verb.
func hookProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "must be a whole url, as in \"https://hooks.example.com/fareway\""
	case u.Scheme != "https" && u.Scheme != "http":
		return "must begin with https://"
	case u.User != nil:
		return "must not have a user and a password: the messages are signed, and the receiver checks that"
	case u.Fragment != "":
		return "must not have a part behind #"
	case u.Scheme == "http" && !isNear(u.Hostname()):
		return "must begin with https://: with http:// anybody on the way reads the messages, and answers in the " +
			"receiver's place. Only this machine and private networks go without"
	}
	return ""
}

// isInClear reports whether what goes to an address can be read on the way.
func isInClear(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !isNear(u.Hostname())
}

// isNear reports whether a host is this machine, or of a private network as far as its name tells.
func isNear(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc([]string{".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc"},
		func(end string) bool { return strings.HasSuffix(host, end) })
}

// hookSecrets reads one secret or a list of them. Each comes from outside by itself.
func (s *section) hookSecrets() (secrets []string) {
	attr := s.attributes["secret"]
	if attr == nil {
		return nil
	}
	s.showReferences(attr.Expr)
	exprs := []hclsyntax.Expression{attr.Expr}
	if list, ok := attr.Expr.(*hclsyntax.TupleConsExpr); ok {
		exprs = list.Exprs
	}
	for _, expr := range exprs {
		raw, ok := s.evaluate(expr)
		if !ok {
			return nil
		}
		v := value{name: "secret", expr: expr, at: expr.Range(), outside: raw.HasMarkDeep(fromOutside{})}
		v.Value, _ = raw.UnmarkDeep()
		switch {
		case !v.outside:
			s.fail(v.at, "Secret written out", "A secret does not belong in this file. Put it into the environment and write "+
				"env(\"NAME\"), or into a file of its own and write file(\"path\").")
			return nil
		case v.IsNull() || v.Type() != cty.String:
			s.refuse(v, "must be a text, or a list of texts as in [env(\"HOOK_SECRET\"), env(\"HOOK_SECRET_BEFORE\")]")
			return nil
		}
		text := strings.TrimSpace(v.AsString())
		if problem := hookSecretProblem(text); problem != "" {
			s.refuse(v, problem+"; "+hookSecretAdvice)
			return nil
		}
		secrets = append(secrets, text)
	}
	if n := len(secrets); n == 0 || n > maxHookSecrets {
		s.fail(attr.Expr.Range(), "Invalid secret", fmt.Sprintf("There are 1 to %d secrets: the new one first, and those "+
			"that receivers still have.", maxHookSecrets))
	}
	return secrets
}

// hookSecretProblem says without showing it what is wrong with a secret.
func hookSecretProblem(text string) string {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return "must begin with whsec_"
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "must be base64 behind whsec_, with its = at the end"
	}
	if len(key) < minHookSecret || len(key) > longestHookSecret {
		return fmt.Sprintf("must have %d to %d bytes before base64, and has %d", minHookSecret, longestHookSecret, len(key))
	}
	return ""
}

func (s *section) events() (events []string) {
	s.choices("events", func(choice string) { events = append(events, choice) })
	if attr := s.attributes["events"]; attr != nil && len(events) == 0 {
		if list, ok := attr.Expr.(*hclsyntax.TupleConsExpr); ok && len(list.Exprs) == 0 {
			s.fail(attr.Expr.Range(), "No events", "It would hear of nothing. Name events, or leave the line out for all.")
		}
	}
	slices.SortFunc(events, func(a, b string) int {
		return slices.Index(AlertEventNames(), a) - slices.Index(AlertEventNames(), b)
	})
	return events
}

func (s *section) mail() Mail {
	m := Mail{TLS: MailStartTLS, Timeout: defaultMailTimeout}
	s.duration("timeout", &m.Timeout)
	s.pem("ca", &m.CA)
	m.Events = s.events()
	s.flag("accounts", &m.Accounts)
	s.flag("links", &m.Links)
	tls := string(m.TLS)
	s.oneOf("tls", &tls)
	m.TLS = MailTLS(tls)
	s.mailServer(&m)
	if v, ok := s.text("from", &m.From); ok {
		if _, problem := mailAddress(m.From); problem != "" {
			s.refuse(v, problem)
		}
	}
	s.list("to", func(element value) {
		if element.Type() != cty.String {
			s.refuseType(element, "a list of addresses, as in [\"ops@example.com\"]")
			return
		}
		address, problem := mailAddress(element.AsString())
		if problem != "" {
			s.refuse(element, problem)
			return
		}
		if !slices.Contains(m.To, address) {
			m.To = append(m.To, address)
		}
	})
	if attr := s.attributes["to"]; attr != nil && len(m.To) > maxRecipients {
		s.fail(attr.Expr.Range(), "Too many recipients", fmt.Sprintf("There may be %d. Use a mailing list.", maxRecipients))
	} else if list, ok := exprOf(attr).(*hclsyntax.TupleConsExpr); ok && len(list.Exprs) == 0 {
		s.fail(list.Range(), "Nobody to mail to", "Name at least one address, as in [\"ops@example.com\"].")
	} else if attr == nil && !m.Accounts && !m.Links {
		s.fail(s.header, "Nobody to mail to", "Name addresses, as in to = [\"ops@example.com\"], or write "+
			"accounts = true, for mails to the accounts' own addresses, or links = true, for links of the portal.")
	}
	if m.Accounts && len(m.Events) > 0 && !slices.ContainsFunc(m.Events, m.HearOwners) {
		s.fail(s.anyOf("events"), "Nothing for accounts", "None of these events is about an account. Those are "+
			strings.Join(accountEvents, ", ")+".")
	}
	s.text("username", &m.Username)
	s.secretText("password", &m.Password)
	if (s.attributes["username"] == nil) != (s.attributes["password"] == nil) {
		s.fail(s.anyOf("username", "password"), "Half a login", "username and password belong together.")
	}
	return m
}

func exprOf(attr *hclsyntax.Attribute) hclsyntax.Expression {
	if attr == nil {
		return nil
	}
	return attr.Expr
}

// mailServer reads where the server is, and judges the way there.
func (s *section) mailServer(m *Mail) {
	var text string
	v, ok := s.text("server", &text)
	if !ok {
		return
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil { // without a port
		host, port = strings.Trim(text, "[]"), "587"
		if m.TLS == MailImplicit {
			port = "465"
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@ ") {
		s.refuse(v, "must be a host and a port, as in \"smtp.example.com:587\"")
		return
	}
	m.Host, m.Port = host, uint16(n)
	if m.Port == 465 && s.attributes["tls"] == nil {
		m.TLS = MailImplicit
	}
	if m.TLS == MailPlain && !isNear(host) {
		s.fail(s.anyOf("tls"), "Mail without TLS", "To a server that is neither this machine nor of a private network the "+
			"password and the messages would go in clear. Write tls = \"starttls\", or \"implicit\".")
	}
}

var (
	_ json.Marshaler = Webhook{}
	_ json.Marshaler = Mail{}
	_ fmt.Formatter  = Webhook{}
	_ fmt.Formatter  = Mail{}
	_ slog.LogValuer = Webhook{}
	_ slog.LogValuer = Mail{}
)
