package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Names become metric labels and parts of file names, so that they are plain and short.
var (
	namePattern      = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	namespacePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	variablePattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	digestPattern    = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
)

const nameRule = "letters, digits, \"_\", \"-\" and \".\", at most 64 of them"

// minBeginning is from how many letters on the beginning of a name says which is meant.
const minBeginning = 4

// Nearest returns the known name that the given one was most likely meant to be: misspelled, or its beginning. Or "".
func Nearest(given string, known []string) string {
	if len(given) > 64 {
		return ""
	}
	given = strings.ToLower(given)
	// Two letters in each other's place are a distance of 2.
	best, distance := "", min(max(2, len(given)/3), len(given)-1)+1
	for _, name := range known {
		if d := levenshtein.Distance(given, strings.ToLower(name), nil); d < distance {
			best, distance = name, d
		}
	}
	if best == "" && len(given) >= minBeginning {
		longer := slices.DeleteFunc(slices.Clone(known),
			func(name string) bool { return !strings.HasPrefix(strings.ToLower(name), given) })
		if len(longer) == 1 {
			return longer[0]
		}
	}
	return best
}

// suggestion is a sentence with the nearest name, or else with all of them. The noun is what they are the names of.
func suggestion(given string, known []string, noun string) string {
	if name := Nearest(given, known); name != "" {
		return "Did you mean \"" + name + "\"?"
	}
	switch len(known) {
	case 0:
		return "There is no " + noun + " here; remove it."
	case 1:
		return "The only " + noun + " here is " + known[0] + "."
	}
	return "The " + noun + "s here are " + enumerate(known) + "."
}

// maxNames is how many names a message tells: a plugin may have thousands of settings, and a file as many routes.
const maxNames = 40

// enumerate writes names as people do: a, b and c.
func enumerate(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	if more := len(names) - maxNames; more > 0 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// clip keeps a name from the file short enough for a message.
func clip(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64]) + "..."
	}
	return name
}
