package command

import (
	"fmt"
	"os"
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
	tracing span encode handle handle_path route admin
`)

// plainArgument is of a number, a size, a duration, a brace or a switch.
var plainArgument = regexp.MustCompile(`^([{}]|\d[\d.]*[a-zA-Z%]{0,3}|on|off|true|false|private_ranges|` +
	`\{\$[A-Z_0-9]+\})$`)

// showCaddyfile is a Caddyfile as it may be shown, line by line as it is: without comments, and with *** for arguments
// that may be secret.
func showCaddyfile(content []byte, name string) (text string, hidden int, err error) {
	tokens, err := caddyfile.Tokenize(content, name)
	if err != nil {
		return "", 0, fmt.Errorf("reading the Caddyfile: %w", err)
	}
	var lines []string
	depth, directive := 0, ""
	for i := range tokens {
		token := &tokens[i]
		first := i == 0 || tokens[i-1].Line != token.Line
		for len(lines) < token.Line {
			lines = append(lines, "")
		}
		word := token.Text
		switch {
		case strings.ContainsAny(word, "\n"):
			word = hiddenArgument
			hidden++
		case word == "{":
			depth++
		case word == "}":
			depth--
		case first:
			directive = word
			if depth == 0 || isDirective.MatchString(word) {
				break // the address of a site, or a name
			}
			word = hiddenArgument
			hidden++
		case depth == 0, plainArgument.MatchString(word), slices.Contains(shownDirectives, directive):
		default:
			word = hiddenArgument
			hidden++
		}
		line := &lines[token.Line-1]
		if first {
			indent := depth
			if word == "{" {
				indent--
			}
			*line = strings.Repeat("\t", max(0, indent)) + word
		} else {
			*line += " " + word
		}
	}
	return strings.Join(lines, "\n") + "\n", hidden, nil
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
