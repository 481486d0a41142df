package routing

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// clientModels lists the names that coding agents and client libraries send on their own; its head says how.
//
//go:embed models.txt
var clientModels string

// defaults is models.txt, read once.
var defaults = sync.OnceValue(func() names {
	list, err := parseNames(clientModels)
	if err != nil {
		// The file is part of the program, and its test reads it.
		panic(err)
	}
	return list
})

// Accept says whether a model name is accepted, and which profile it selects, "" for none (MODEL-06 to
// MODEL-14). Names are compared byte by byte: no trimming and no folding of case (GAP-08).
func Accept(namespace, model string) (profile string, ok bool) {
	if name, found := strings.CutPrefix(model, namespace+"/"); found {
		switch name {
		case "auto":
			return "", true
		case Budget, Balanced, Max:
			return name, true
		}
		return "", false
	}
	return "", model == "auto" || defaults().match(model)
}

// names is a list of exact names and anchored patterns.
type names struct {
	exact    map[string]struct{}
	patterns *regexp.Regexp // all of them as one, nil for none
}

func (n names) match(model string) bool {
	if _, ok := n.exact[model]; ok {
		return true
	}
	return n.patterns != nil && n.patterns.MatchString(model)
}

// parseNames reads a list: one name a line, or a regular expression that begins with ^ and ends with $;
// blank lines and lines that begin with # do not count. A name with a slash is another router's and is
// refused (GAP-07).
func parseNames(text string) (names, error) {
	list := names{exact: make(map[string]struct{})}
	var patterns []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.Contains(line, "/"):
			return names{}, fmt.Errorf("reading model name %q: a name must not contain a slash", line)
		case line[0] != '^':
			list.exact[line] = struct{}{}
		case !strings.HasSuffix(line, "$"):
			return names{}, fmt.Errorf("reading model pattern %q: a pattern must end with $", line)
		default:
			patterns = append(patterns, line)
		}
	}
	if len(patterns) == 0 {
		return list, nil
	}
	var err error
	list.patterns, err = regexp.Compile(`\A(?:` + strings.Join(patterns, "|") + `)\z`)
	if err != nil {
		return names{}, fmt.Errorf("reading model patterns: %w", err)
	}
	return list, nil
}
