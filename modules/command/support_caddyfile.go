package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// shownDirectives are those of a Caddyfile whose arguments may be shown. Of all others only the name is: headers,
// passwords, keys of DNS services and whole replies can stand behind them.
var shownDirectives = strings.Fields(`
	fareway fareway_entry fareway_auth fareway_limits fareway_exchange fareway_connections config data health import
	bind log output level exclude include format mode roll_size roll_keep roll_keep_for roll_disabled roll_compression
	grace_period shutdown_delay auto_https persist_config storage servers timeouts read_body read_body_idle read_header
	write idle max_header_size protocols listener_wrappers proxy_protocol trusted_proxies trusted_proxies_strict
	client_ip_headers per_address max exempt tls protocols ca email default_bind http_port https_port order debug metrics
	tracing span encode handle handle_path route admin fareway_portal
`)

// plainArgument is of a number, a size, a duration, a brace or a switch.
var plainArgument = regexp.MustCompile(`^([{}]|\d[\d.]{0,4}[a-zA-Z%]{0,3}|on|off|true|false|private_ranges|` +
	`\{\$[A-Z_0-9]+\})$`)

// siteAddress is of an address of a site, or of the name of a snippet or a named route.
var siteAddress = regexp.MustCompile(`^((https?://)?(localhost|\[[0-9a-f:]+\]|\{\$[A-Z_0-9]+\}|` +
	`(\*\.)?([a-z0-9-]{1,63}\.)+[a-z0-9-]{1,63})?(:(\d{1,5}|\{\$[A-Z_0-9]+\}))?/?\*?,?|&?\([a-z0-9_-]{1,40}\))$`)

// jsonStart is of a file that is no Caddyfile.
var jsonStart = regexp.MustCompile(`^\s*(\[|\{\s*("|\}\s*$))`)

var errNoCaddyfile = errors.New("it is no Caddyfile, and of another form nobody knows what may be shown")

// caddyfileView is what is shown of a Caddyfile.
type caddyfileView struct {
	lines  []string
	hidden int
	blocks []string // the directives whose blocks are open
}

// showCaddyfile is a Caddyfile as it may be shown, line by line as it is: without comments, and with *** for arguments
// that may be secret.
func showCaddyfile(content []byte, name string) (text string, hidden int, err error) {
	if slices.Contains([]string{".json", ".json5", ".jsonc", ".yaml", ".yml", ".toml"},
		strings.ToLower(filepath.Ext(name))) || jsonStart.Match(content) {
		return "", 0, errNoCaddyfile
	}
	tokens, err := caddyfile.Tokenize(content, name)
	if err != nil {
		return "", 0, fmt.Errorf("reading the Caddyfile: %w", err)
	}
	var v caddyfileView
	for len(tokens) > 0 {
		n := 1 // a text of several lines does not end the one that it stands in
		for n < len(tokens) && tokens[n-1].Line+tokens[n-1].NumLineBreaks() >= tokens[n].Line {
			n++
		}
		v.add(tokens[:n])
		tokens = tokens[n:]
	}
	return strings.Join(v.lines, "\n") + "\n", v.hidden, nil
}

// add adds the words of one line.
func (v *caddyfileView) add(tokens []caddyfile.Token) {
	words := make([]string, len(tokens))
	for i := range tokens {
		words[i] = tokens[i].Text
	}
	for len(words) > 0 && words[0] == "}" && len(v.blocks) > 0 {
		v.blocks = v.blocks[:len(v.blocks)-1]
		if len(words) > 1 {
			break // Caddy refuses it
		}
		words = nil
	}
	depth := len(v.blocks)
	opens := len(words) > 0 && words[len(words)-1] == "{"
	if opens {
		words = words[:len(words)-1]
	}
	directive := ""
	if len(words) > 0 {
		directive = words[0]
	}
	if depth > 0 || !areAddresses(words) {
		v.hide(words, directive)
	}
	line := strings.Join(words, " ")
	switch {
	case opens:
		line = strings.TrimLeft(line+" {", " ")
		v.blocks = append(v.blocks, directive)
	case len(words) == 0:
		line = "}"
	}
	for len(v.lines) < tokens[0].Line {
		v.lines = append(v.lines, "")
	}
	v.lines[tokens[0].Line-1] = strings.Repeat("\t", depth) + line
}

// areAddresses reports whether a line outside of all blocks is of a site, a snippet or a named route. In a Caddyfile
// without braces the lines of its one site stand there, too.
func areAddresses(words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !siteAddress.MatchString(word) })
}

// hide hides of a directive's words what may be secret.
func (v *caddyfileView) hide(words []string, directive string) {
	known := slices.Contains(shownDirectives, directive)
	for i, word := range words {
		switch {
		case i == 0 && (known || v.isName(word, len(words) == 1)):
		case i == 0, strings.Contains(word, "\n"):
			words[i] = hiddenArgument
			v.hidden++
		case directive == "import" && i > 1: // what a snippet is filled with
			words[i] = hiddenArgument
			v.hidden++
		case plainArgument.MatchString(word), known:
		default:
			words[i] = hiddenArgument
			v.hidden++
		}
	}
}

// isName reports whether the first word of a line is the name of a directive, a matcher or a setting. In the block of a
// directive that nobody knows it may be a user's name or a token in a list, too.
func (v *caddyfileView) isName(word string, alone bool) bool {
	if !isDirective.MatchString(word) {
		return false
	}
	if len(v.blocks) < 2 || slices.Contains(shownDirectives, v.blocks[len(v.blocks)-1]) {
		return true
	}
	parent := v.blocks[len(v.blocks)-1]
	return !alone && !strings.ContainsAny(word, "0123456789@") && parent != "basic_auth" && parent != "basicauth"
}

// hiddenArgument stands for what may not be shown.
const hiddenArgument = "***"

// isDirective is of what looks like the name of a directive, a matcher or a block.
var isDirective = regexp.MustCompile(`^[@a-z][a-z0-9_.-]{0,40}$`)

// collectCaddyfile adds the Caddyfile, as it may be shown.
func (c *collection) collectCaddyfile() {
	file := c.caddyfile()
	if file == "" {
		return // the gateway may run without one
	}
	content, err := os.ReadFile(file)
	if err != nil {
		c.bundle.Miss("Caddyfile", err)
		return
	}
	text, hidden, err := showCaddyfile(content, file)
	if err != nil {
		c.bundle.Miss("Caddyfile", err)
		return
	}
	var out map[string]int
	if hidden > 0 {
		out = map[string]int{"arguments of directives that are on no list": hidden}
	}
	c.bundle.AddShown("config/Caddyfile", "the Caddyfile, with its lines' numbers", text, out)
}
