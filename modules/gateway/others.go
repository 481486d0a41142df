package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host/trust"
)

// adapted is the Caddyfile with the option fareway that this process has read last, nil for none.
var adapted atomic.Pointer[string]

// warnOfOthers says at each load which files of the configuration others can change, or the folders above them: they
// decide what the gateway runs and where its keys go. It is not refused, as a plugin is: folders that are mounted into
// containers, and groups of operators, are common.
func (a *App) warnOfOthers(cfg *config.Config) {
	warnOfOthers(a.log, filesOf(cfg, adapted.Load(), os.Args))
}

// filesOf are the files of a configuration, with the Caddyfile, nil for none, and what the program's arguments name.
func filesOf(cfg *config.Config, caddyfile *string, args []string) []string {
	paths := flagFiles(args)
	if caddyfile != nil {
		paths = append(paths, *caddyfile)
	}
	paths = withImports(paths)
	for _, f := range cfg.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// warnOfOthers says each file or folder once, with the first file that is read by it. The group of one user is not
// others.
func warnOfOthers(log *slog.Logger, paths []string) {
	said := make(map[string]bool)
	for _, path := range paths {
		found, _ := trust.OnTheWay(path, os.Geteuid()) // what is not there is said by who reads it
		for _, f := range found {
			if f.OwnGroup || said[f.Path] {
				continue
			}
			said[f.Path] = true
			log.Warn("others can change the configuration, and so what the gateway does and where its keys go: take that right "+
				"from them (chmod go-w, chown)", "file", path, "why", f.String())
		}
	}
}

// flagFiles are the files that Caddy's flags --config and --envfile name.
func flagFiles(args []string) (paths []string) {
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		switch name {
		case "--config", "-c", "--envfile":
			if !given && i+1 < len(args) {
				value = args[i+1]
			}
			if name == "--envfile" {
				paths = append(paths, strings.Split(value, ",")...)
				continue
			}
			paths = append(paths, value)
		}
	}
	return paths
}

// withImports adds to Caddyfiles what they import, and the folders in which an import looks for whatever is there.
func withImports(paths []string) []string {
	for i := 0; i < len(paths); i++ { // grows
		content, err := os.ReadFile(paths[i])
		if err != nil {
			continue // Caddy says it
		}
		for _, pattern := range importsOf(paths[i], content) {
			matches, _ := filepath.Glob(pattern) // Caddy says which is none
			if wild := strings.IndexAny(pattern, "*?["); wild >= 0 {
				matches = append(matches, filepath.Dir(pattern[:wild+1]))
			}
			for _, match := range matches {
				if !slices.Contains(paths, match) {
					paths = append(paths, match)
				}
			}
		}
	}
	return paths
}

var envInCaddyfile = regexp.MustCompile(`\{\$([^}:]+)(?::([^}]*))?\}`)

// importsOf are what a Caddyfile imports, as patterns. A snippet's name is among them, and is no file as a rule.
func importsOf(path string, content []byte) (patterns []string) {
	content = envInCaddyfile.ReplaceAllFunc(content, func(span []byte) []byte {
		parts := envInCaddyfile.FindSubmatch(span)
		if value, ok := os.LookupEnv(string(parts[1])); ok {
			return []byte(value)
		}
		return parts[2]
	})
	tokens, _ := caddyfile.Tokenize(content, path) // Caddy says what is wrong with it
	for i := 0; i+1 < len(tokens); i++ {
		if tokens[i].Text != "import" || tokens[i].Line != tokens[i+1].Line {
			continue
		}
		pattern := tokens[i+1].Text
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		patterns = append(patterns, pattern)
	}
	return patterns
}
