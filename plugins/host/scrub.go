package host

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// hidden is what is shown in place of a secret.
const hidden = "[redacted]"

// minSecret is the shortest value that is looked for, in bytes: a shorter one is in every other word, and its marks
// would tell what it is.
const minSecret = 4

// maxShown is how much is shown of what a plugin or an upstream says, in bytes: a message, a line, a field of one.
// There may be a prompt in it.
const maxShown = 2 << 10

// scrubber takes secrets out of what plugins and upstreams say: a plugin that logs its settings, or hands on the words
// of an upstream that repeats them, is common. Each process has one, with its secret settings and the credentials of
// its endpoints; behind it is the host's, with all that the configuration has from outside (Host.Redact). The zero
// value knows none.
type scrubber struct {
	host *scrubber // nil for the host's own

	secrets atomic.Pointer[known]

	mu       sync.Mutex
	outside  map[string]bool // of the host's own
	settings map[string]bool
	recent   []map[string]bool // credentials of endpoints, the oldest first
}

// known are secrets: in one replacer, and the longest first, for what was cut within one.
type known struct {
	replacer *strings.Replacer
	list     []string
}

// maxOutside bounds what is known from outside, in forms of values: beyond it, what was known before is forgotten.
const maxOutside = 100_000

// redact makes a value known that the configuration has from outside.
func (s *scrubber) redact(value string) {
	forms := make(map[string]bool)
	collectTexts(value, forms)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outside == nil || len(s.outside) > maxOutside {
		s.outside = make(map[string]bool)
	}
	before := len(s.outside)
	for form := range forms {
		if !isCommon(form) {
			s.outside[form] = true
		}
	}
	if len(s.outside) != before {
		s.publish()
	}
}

// isCommon reports a value that is no secret and stands in many lines: a number, true, false, null.
func isCommon(value string) bool {
	const mostDigits = 7
	_, err := strconv.ParseUint(value, 10, 64)
	return err == nil && len(value) <= mostDigits || value == "true" || value == "false" || value == "null"
}

// maxRecent bounds the endpoints whose credentials are known: tokens that expire are many in a year.
const maxRecent = 32

// learn makes the values of the settings that the schema calls secret known.
func (s *scrubber) learn(schema *settings.Schema, values settings.Values) {
	known := make(map[string]bool)
	var all map[string]any
	if json.Unmarshal(values, &all) == nil {
		collectSecrets(schema, all, known)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = known
	s.publish()
}

// add makes the credentials of an endpoint known.
func (s *scrubber) add(secrets []string) {
	known := make(map[string]bool)
	for _, secret := range secrets {
		collectTexts(secret, known)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent = append(s.recent, known); len(s.recent) > maxRecent {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.publish()
}

// publish is called with the lock held.
func (s *scrubber) publish() {
	all := make(map[string]bool)
	for _, more := range append([]map[string]bool{s.settings, s.outside}, s.recent...) {
		maps.Copy(all, more)
	}
	// The longest first: one may be the beginning of another.
	list := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(list))
	for _, secret := range list {
		pairs = append(pairs, secret, hidden)
	}
	s.secrets.Store(&known{strings.NewReplacer(pairs...), list})
}

func collectSecrets(schema *settings.Schema, values map[string]any, into map[string]bool) {
	for _, a := range schema.Attributes {
		if a.Secret {
			collectTexts(values[a.Name], into)
		}
	}
	for _, b := range schema.Blocks {
		switch v := values[b.Name].(type) {
		case map[string]any:
			collectSecrets(&b.Schema, v, into)
		case []any:
			for _, one := range v {
				if one, ok := one.(map[string]any); ok {
					collectSecrets(&b.Schema, one, into)
				}
			}
		}
	}
}

// collectTexts adds each text in v, in the forms in which it is written in URLs, headers and logs.
func collectTexts(v any, into map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			collectTexts(one, into)
		}
	case map[string]any:
		for _, one := range v {
			collectTexts(one, into)
		}
	case string:
		text := strings.TrimSpace(v)
		// A key file is printed line by line.
		for _, part := range append(strings.Split(text, "\n"), text) {
			part = strings.TrimSpace(part)
			quoted, _ := json.Marshal(part) // texts can be encoded
			for _, form := range []string{
				part, strings.Trim(string(quoted), `"`), url.QueryEscape(part), url.PathEscape(part),
				base64.StdEncoding.EncodeToString([]byte(part)), base64.RawURLEncoding.EncodeToString([]byte(part)),
			} {
				if len(part) >= minSecret {
					into[form] = true
				}
			}
		}
	}
}

// clean is what a plugin says as people may see it: without the secrets, of about maxShown at most, and printable.
func (s *scrubber) clean(text string) string {
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "")
	}
	text = wire.Printable(s.hide(text))
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown-len(ellipsis)], "") + ellipsis
	}
	return text
}

// ellipsis stands for what is not shown of a long text.
const ellipsis = "..."

func (s *scrubber) hide(text string) string {
	if s.host != nil {
		text = s.host.hide(text)
	}
	secrets := s.secrets.Load()
	if secrets == nil {
		return text
	}
	long := len(text) > maxLine-utf8.UTFMax
	if text = secrets.replacer.Replace(text); !long {
		return text
	}
	// It may have been cut within one, which matters where the end is shown.
	for _, secret := range secrets.list {
		for n := min(len(secret)-1, len(text)); n >= minSecret; n-- {
			if rest, cut := strings.CutSuffix(text, secret[:n]); cut {
				return rest + hidden
			}
		}
	}
	return text
}

// cleanValue is a field of a line of log without the secrets, however deep.
func (s *scrubber) cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return s.clean(v)
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = s.cleanValue(one)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, one := range v {
			out[s.clean(name)] = s.cleanValue(one)
		}
		return out
	}
	return v
}
