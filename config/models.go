package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// ModelNames is a list of model names that clients may send: exact names, and patterns from ^ to $ that match
// a name as a whole. The zero value has none.
type ModelNames struct {
	list     []string
	exact    map[string]struct{}
	patterns *regexp.Regexp // all of them as one, nil for none
}

// NewModelNames makes a list. An entry is refused that could not match what it seems to, or that could match
// another router's name (GAP-07); the error says which and why.
func NewModelNames(entries []string) (ModelNames, error) {
	names := ModelNames{list: entries, exact: make(map[string]struct{})}
	var patterns []string
	for _, entry := range entries {
		if problem := modelNameProblem(entry); problem != "" {
			return ModelNames{}, fmt.Errorf("reading model name %q: it %s", entry, problem)
		}
		if isModelPattern(entry) {
			patterns = append(patterns, entry)
		} else {
			names.exact[entry] = struct{}{}
		}
	}
	if len(patterns) == 0 {
		return names, nil
	}
	var err error
	names.patterns, err = regexp.Compile(`\A(?:` + strings.Join(patterns, "|") + `)\z`)
	if err != nil {
		return ModelNames{}, fmt.Errorf("reading model patterns: %w", err)
	}
	return names, nil
}

// Match reports whether a name is in the list. Names are compared byte by byte (GAP-08), and one with a slash
// never is: it belongs to a namespace.
func (n ModelNames) Match(model string) bool {
	if _, ok := n.exact[model]; ok {
		return true
	}
	return n.patterns != nil && !strings.Contains(model, "/") && n.patterns.MatchString(model)
}

// MarshalJSON prints the list as it was written.
func (n ModelNames) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]string{}, n.list...))
}

func isModelPattern(entry string) bool { return strings.HasPrefix(entry, "^") }

// modelNameProblem says what is wrong with an entry of a list of model names, beginning with a verb, or "".
func modelNameProblem(entry string) string {
	switch {
	case entry == "":
		return "must not be empty"
	case strings.Contains(entry, "/"):
		return "must not contain a slash: such names belong to a namespace or to another router"
	case strings.ContainsFunc(entry, unicode.IsSpace):
		return "must not contain blanks"
	case isModelPattern(entry):
		if !strings.HasSuffix(entry, "$") {
			return "must end with $, as a pattern that begins with ^ does, so that it matches whole names only"
		}
		if _, err := regexp.Compile(entry); err != nil {
			return "must be a regular expression in Go's notation (RE2) of a moderate size, as in \"^my-agent-\\\\d{1,2}$\""
		}
	case strings.ContainsAny(entry, `*?^$()|\{}`):
		return "must be an exact name, or a pattern from ^ to $, as in \"^my-agent-\\\\d{1,2}$\""
	}
	return ""
}

// isLoosePattern reports whether a pattern accepts any text of any length somewhere.
func isLoosePattern(entry string) bool {
	parsed, err := syntax.Parse(entry, syntax.Perl)
	return err == nil && isModelPattern(entry) && loose(parsed)
}

func loose(re *syntax.Regexp) bool {
	for _, sub := range re.Sub {
		anything := sub.Op == syntax.OpAnyChar || sub.Op == syntax.OpAnyCharNotNL
		endless := re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0
		if anything && endless || loose(sub) {
			return true
		}
	}
	return false
}

// maxModelName bounds an entry of client_models, in bytes.
const maxModelName = 256

// clientModels reads the names that are accepted beside the built-in list (GAP-07).
func (s *section) clientModels(target *ModelNames) {
	var entries []string
	s.list("client_models", func(element value) {
		var entry string
		if !s.asText(element, maxModelName, &entry) {
			return
		}
		if problem := modelNameProblem(entry); problem != "" {
			s.refuse(element, problem)
			return
		}
		if isLoosePattern(entry) {
			s.warn(element.at, "Loose pattern in client_models",
				"It accepts any text, and so turns misspelled names into replies. Spell the name out, and leave open only what "+
					"changes, such as a date.")
		}
		entries = append(entries, entry)
	})
	names, err := NewModelNames(entries)
	if err != nil {
		s.fail(s.anyOf("client_models"), "Invalid client_models",
			"The patterns together are too large. Write fewer or simpler ones.")
		return
	}
	*target = names
}
