package host

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// hidden is what is shown in place of a secret.
const hidden = "***"

// minSecret is the shortest value that is looked for, in bytes: a shorter one is in every other word, and its marks
// would tell what it is.
const minSecret = 4

// scrubber takes a plugin's secrets out of what it says: a plugin that logs its settings, or hands on the words of an
// upstream that repeats them, is common. The zero value knows none.
type scrubber struct {
	secrets atomic.Pointer[[]string]

	mu       sync.Mutex
	settings map[string]bool
	recent   []map[string]bool // credentials of endpoints, the oldest first
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
	known := maps.Clone(s.settings)
	if known == nil {
		known = make(map[string]bool)
	}
	for _, more := range s.recent {
		maps.Copy(known, more)
	}
	// The longest first: one may be the beginning of another.
	list := slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	s.secrets.Store(&list)
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

// clean is what a plugin says as people may see it: without the secrets, of maxLine at most, and printable.
func (s *scrubber) clean(text string) string {
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "")
	}
	return wire.Printable(s.hide(text))
}

func (s *scrubber) hide(text string) string {
	secrets := s.secrets.Load()
	if secrets == nil {
		return text
	}
	for _, secret := range *secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	if len(text) < maxLine-len(hidden) {
		return text
	}
	// It may have been cut within one.
	for _, secret := range *secrets {
		for n := len(secret) - 1; n >= minSecret; n-- {
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
