package bundle

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Redactor takes out what is not to leave the house. Names stand for the same everywhere in one bundle.
type Redactor struct {
	// KeepNames leaves accounts and keys, by name and id, and clients' addresses as they are.
	KeepNames bool

	secrets map[string]string // what stands for each, by its text
	names   map[kind]map[string]string
	counts  map[kind]int
	texts   map[string]string // names that are looked for in texts, and what stands for them
	paths   []path
}

// kind is of what is called by another name.
type kind string

const (
	account kind = "account"
	key     kind = "key"
	client  kind = "client"
	machine kind = "machine"
)

// path is a folder that is called by another name.
type path struct{ text, as string }

// leastSecret is how long a text is at least that is looked for everywhere: a shorter one is in every other word.
const leastSecret = 5

// Secret has a text taken out wherever it is: as it is, and as URLs, JSON, base64 and hex have it.
func (r *Redactor) Secret(text, what string) {
	for _, text := range []string{text, strings.TrimSpace(text)} {
		if len(text) < leastSecret {
			continue
		}
		if r.secrets == nil {
			r.secrets = make(map[string]string)
		}
		quoted, _ := json.Marshal(text) // a string always can be
		for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text), string(quoted[1 : len(quoted)-1]),
			base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
			hex.EncodeToString([]byte(text))} {
			r.secrets[form] = "[" + what + "]"
		}
		for line := range strings.Lines(text) { // of what has several, each alone tells enough
			if line = strings.TrimSpace(line); len(line) >= 3*leastSecret {
				r.secrets[line] = "[" + what + "]"
			}
		}
	}
}

// Path has a folder called otherwise: paths tell who runs the gateway.
func (r *Redactor) Path(folder, as string) {
	if len(folder) > 3 {
		r.paths = append(r.paths, path{folder, as})
		slices.SortStableFunc(r.paths, func(a, b path) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
}

// Machine has the name of a machine called otherwise.
func (r *Redactor) Machine(name string) { r.name(machine, name) }

// leastName is how long a name is at least that is looked for in texts.
const leastName = 3

// name is what something is called in the bundle.
func (r *Redactor) name(k kind, text string) string {
	if text == "" || r.KeepNames && k != machine {
		return text
	}
	if r.names == nil {
		r.names, r.counts, r.texts = make(map[kind]map[string]string), make(map[kind]int), make(map[string]string)
	}
	if r.names[k] == nil {
		r.names[k] = make(map[string]string)
	}
	as, ok := r.names[k][text]
	if !ok {
		r.counts[k]++
		as = fmt.Sprintf("%s-%d", k, r.counts[k])
		r.names[k][text] = as
		if len(text) >= leastName {
			r.texts[text] = as
		}
	}
	return as
}

// alias has two texts stand for the same: an account's id and its name.
func (r *Redactor) alias(k kind, id, name string) {
	if id == "" || name == "" || r.KeepNames {
		return
	}
	as := r.name(k, id)
	r.names[k][name] = as
	if len(name) >= leastName {
		r.texts[name] = as
	}
}

// Accounts are what the accounts in the bundle are called there, by their names and ids.
func (r *Redactor) Accounts() map[string]string { return maps.Clone(r.names[account]) }

// pattern finds what looks like a secret.
type pattern struct {
	what    string
	find    *regexp.Regexp
	replace string // with $1 and so on
}

// namedSecrets are values with a name that says that they are secret.
const namedSecrets = "named secrets"

// patterns are in the order in which they are looked for. They are the second line: what is on no list does not come as
// far as here.
var patterns = []pattern{
	{"private keys", regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----(?s:.*?)(-----END [A-Z0-9 ]+-----|$)`), "[PEM]"},
	{"clients' keys", regexp.MustCompile(`\bfwk?[_-][A-Za-z0-9_-]{8,}`), "[client's key]"},
	{"keys of services", regexp.MustCompile(`\b(sk|pk|rk|gsk|hf|r8|xai|whsec|whpk|gh[pousr]|github_pat|glpat|` +
		`xox[abeprs]|dckr_pat|npm|pypi|tskey|sq0[a-z]{3}|SG)[_.-][A-Za-z0-9_+/=.-]{12,}`), "[key]"},
	{"keys of services", regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{12,}|\bAIza[0-9A-Za-z_-]{20,}|` +
		`\bAGE-SECRET-KEY-1[0-9A-Z]+|\bya29\.[0-9A-Za-z_-]+`), "[key]"},
	{"tokens", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(\.[A-Za-z0-9_-]*)?`), "[JWT]"},
	{"authorization headers", regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate)\s+[A-Za-z0-9._~+/=-]{6,}`),
		"$1 [redacted]"},
	{"users and passwords in URLs", regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>\\]*@`), "$1[redacted]@"},
	{"queries of URLs", regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>?\\]*)\?[^\s"'<>\\]+`), "$1?[redacted]"},
	{namedSecrets, regexp.MustCompile(`(?i)\b([a-z0-9_.-]*(?:api[_-]?key|secret|passw(?:or)?d|passphrase|token|` +
		`authorization|cookie|private[_-]?key|access[_-]?key|credentials?)\\?"?\s*[:=]\s*)` +
		`("[^"]*"|'[^']*'|\\"[^"]*"|[^\s",;}\\\[]{3,})`), "$1[redacted]"},
	{"mail addresses", regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b`),
		"[mail address]"},
}

// opaque finds what may be a key of a service that nobody thought of: long, and of all kinds of signs.
var opaque = regexp.MustCompile(`[A-Za-z0-9_+=-]{28,}`)

func looksRandom(text string) bool {
	return strings.ContainsFunc(text, unicode.IsUpper) && strings.ContainsFunc(text, unicode.IsLower) &&
		strings.ContainsFunc(text, unicode.IsDigit)
}

// Text takes secrets out of a text, and calls names and paths otherwise. found counts what was taken out, by what it
// was.
func (r *Redactor) Text(text string, found map[string]int) string {
	return r.rename(r.guess(r.known(text, found), found))
}

// shown is Text of what was written out by permission: where it says "api_key", it says where that comes from.
func (r *Redactor) shown(text string, found map[string]int) string {
	return r.rename(r.guessBut(namedSecrets, r.known(text, found), found))
}

// rename calls names and paths otherwise.
func (r *Redactor) rename(text string) string {
	for _, name := range slices.SortedFunc(maps.Keys(r.texts), longest) {
		if !strings.Contains(text, name) {
			continue
		}
		text = replaceWord(text, name, r.texts[name])
	}
	for _, p := range r.paths {
		text = strings.ReplaceAll(text, p.text, p.as)
	}
	return text
}

func longest(a, b string) int {
	return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
}

// known takes out what is known to be secret.
func (r *Redactor) known(text string, found map[string]int) string {
	for _, secret := range slices.SortedFunc(maps.Keys(r.secrets), longest) {
		if n := strings.Count(text, secret); n > 0 {
			found["values that are secret"] += n
			text = strings.ReplaceAll(text, secret, r.secrets[secret])
		}
	}
	return text
}

// guess takes out what looks like a secret.
func (r *Redactor) guess(text string, found map[string]int) string {
	return r.guessBut("", text, found)
}

// guessBut is guess without one of the patterns.
func (r *Redactor) guessBut(left, text string, found map[string]int) string {
	for _, p := range patterns {
		if p.what == left {
			continue
		}
		if n := len(p.find.FindAllStringIndex(text, -1)); n > 0 {
			found[p.what] += n
			text = p.find.ReplaceAllString(text, p.replace)
		}
	}
	return opaque.ReplaceAllStringFunc(text, func(word string) string {
		if !looksRandom(word) {
			return word
		}
		found["what looks like a key"]++
		return "[opaque]"
	})
}

// replaceWord replaces a word where it is one, and no part of another one.
func replaceWord(text, word, as string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, word)
		if at < 0 {
			break
		}
		end := at + len(word)
		if at > 0 && isWord(text[at-1]) || end < len(text) && isWord(text[end]) {
			b.WriteString(text[:end])
		} else {
			b.WriteString(text[:at] + as)
		}
		text = text[end:]
	}
	return b.String() + text
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
