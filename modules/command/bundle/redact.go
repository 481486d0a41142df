package bundle

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
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

	longestSecrets []string         // the longest first; nil once another is known
	lengths        map[string][]int // of texts, by the word that they begin with, the longest first; nil likewise
	public         bool             // any public address is a client's: it stands in a line of log
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
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted))
		again := strconv.Quote(text)
		r.longestSecrets = nil
		for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text), string(quoted[1 : len(quoted)-1]),
			plain[1 : len(plain)-1], again[1 : len(again)-1],
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
	if text == "" || r.KeepNames && k != machine || k == client && isLocal(text) {
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
		if k != client { // those are found by what addresses look like
			r.lookFor(text, as)
		}
	}
	return as
}

// isLocal reports whether a client is the machine itself, which upstreams and listeners are, too.
func isLocal(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && (addr.Unmap().IsLoopback() || addr.IsUnspecified())
}

// lookFor has a name looked for in texts.
func (r *Redactor) lookFor(name, as string) {
	if len(name) >= leastName && r.texts[name] != as {
		r.texts[name], r.lengths = as, nil
	}
}

// alias has two texts stand for the same: an account's id and its name.
func (r *Redactor) alias(k kind, id, name string) {
	if id == "" || name == "" || r.KeepNames {
		return
	}
	as := r.name(k, id)
	r.names[k][name] = as
	r.lookFor(name, as)
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
	// What a plugin has said may be what it was asked.
	{"plugins' last words", regexp.MustCompile(`its last words: (?s:.*)`), "its last words: " + leftOut},
	{"what plugins have written", regexp.MustCompile(`(it printed|its handshake is) "(?:[^"\\]|\\.)*"`), "$1 " + leftOut},
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

// rename calls names and paths otherwise.
func (r *Redactor) rename(text string) string {
	text = r.renameWords(r.ids(r.addresses(text)))
	for _, p := range r.paths {
		text = strings.ReplaceAll(text, p.text, p.as)
	}
	return text
}

// idOf finds ids of accounts and keys.
var idOf = regexp.MustCompile(`\b(acct|key)_[0-9a-f]{20,}`)

// ids calls accounts and keys otherwise that stand as ids.
func (r *Redactor) ids(text string) string {
	if !strings.Contains(text, "acct_") && !strings.Contains(text, "key_") {
		return text
	}
	return idOf.ReplaceAllStringFunc(text, func(id string) string {
		if strings.HasPrefix(id, "acct_") {
			return r.name(account, id)
		}
		return r.name(key, id)
	})
}

// addressOf finds what may be an address.
var addressOf = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b|(?i)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}`)

// addresses calls clients otherwise that stand as addresses.
func (r *Redactor) addresses(text string) string {
	if r.KeepNames || len(r.names[client]) == 0 && !r.public || !strings.ContainsAny(text, ".:") {
		return text
	}
	return addressOf.ReplaceAllStringFunc(text, func(found string) string {
		addr, err := netip.ParseAddr(found)
		if err != nil {
			return found
		}
		if as, ok := r.names[client][found]; ok {
			return as
		}
		if r.public && addr.IsGlobalUnicast() && !addr.IsPrivate() {
			return r.name(client, found)
		}
		return found
	})
}

// startOf is the word that a text begins with, or its first byte.
func startOf(text string) string {
	n := 0
	for n < len(text) && isWord(text[n]) {
		n++
	}
	return text[:max(n, 1)]
}

// renameWords calls names otherwise where they are words, and no parts of others. It looks at each place once, however
// many names there are.
func (r *Redactor) renameWords(text string) string {
	if len(r.texts) == 0 {
		return text
	}
	if r.lengths == nil {
		r.lengths = make(map[string][]int)
		for name := range r.texts {
			start := startOf(name)
			at, there := slices.BinarySearchFunc(r.lengths[start], len(name), func(a, b int) int { return b - a })
			if !there {
				r.lengths[start] = slices.Insert(r.lengths[start], at, len(name))
			}
		}
	}
	var b strings.Builder
	for text != "" {
		n := len(startOf(text))
		as := text[:n]
		for _, length := range r.lengths[as] {
			if length > len(text) || length < len(text) && isWord(text[length-1]) && isWord(text[length]) {
				continue
			}
			if other, ok := r.texts[text[:length]]; ok {
				n, as = length, other
				break
			}
		}
		b.WriteString(as)
		text = text[n:]
	}
	return b.String()
}

func longest(a, b string) int {
	return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
}

// known takes out what is known to be secret.
func (r *Redactor) known(text string, found map[string]int) string {
	if r.longestSecrets == nil {
		r.longestSecrets = slices.SortedFunc(maps.Keys(r.secrets), longest)
	}
	for _, secret := range r.longestSecrets {
		if n := strings.Count(text, secret); n > 0 {
			found["values that are secret"] += n
			text = strings.ReplaceAll(text, secret, r.secrets[secret])
		}
	}
	return text
}

// reference is of a value that says where a secret is, or that one was taken out.
var reference = regexp.MustCompile(`^(["']?(\$\{)?(env|file)\(|["']?(\*\*\*|\[)|(var|local)\.\w+$|["']{2}$)`)

// guess takes out what looks like a secret.
func (r *Redactor) guess(text string, found map[string]int) string {
	if len(text) < leastSecret {
		return text
	}
	for _, p := range patterns {
		switch {
		case !p.find.MatchString(text):
		case p.what == namedSecrets:
			text = p.find.ReplaceAllStringFunc(text, func(whole string) string {
				parts := p.find.FindStringSubmatch(whole)
				if reference.MatchString(parts[2]) {
					return whole
				}
				found[p.what]++
				return parts[1] + "[redacted]"
			})
		default:
			found[p.what] += len(p.find.FindAllStringIndex(text, -1))
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

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
