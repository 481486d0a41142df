package routing

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/fareway/fareway/config"
)

//go:generate go run ./gen

// clientModels lists the names that coding agents and client libraries send on their own; its head says how.
// libraryModels are those that the pinned versions of client libraries have in their own types, whatever the patterns
// of the other list foresaw.
var (
	//go:embed models.txt
	clientModels string
	//go:embed library_models.txt
	libraryModels string
)

// defaults are both lists, read once.
var defaults = sync.OnceValue(func() config.ModelNames {
	names, err := config.NewModelNames(entries(clientModels + libraryModels))
	if err != nil {
		// The files are part of the program, and their test reads them.
		panic(err)
	}
	return names
})

// entries are the lines of a list but for blank ones and those that begin with #.
func entries(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

// Accept says whether a model name is accepted, and which profile it selects, "" for none (MODEL-06 to
// MODEL-14). own are the names that the operator adds to the built-in list. Names are compared byte by byte:
// no trimming and no folding of case (GAP-08).
func Accept(namespace string, own config.ModelNames, model string) (profile string, ok bool) {
	if name, found := strings.CutPrefix(model, namespace+"/"); found {
		if name == "auto" {
			return "", true
		}
		if slices.Contains(config.ProfileNames(), name) {
			return name, true
		}
		return "", false
	}
	return "", model == "auto" || defaults().Match(model) || own.Match(model)
}
