package engine

import (
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
)

// readEvery is after how many looks the files of plugins are read whole, whatever their times and sizes say: there are
// file systems without useful ones.
const readEvery = 60

// programs keeps up with the files of plugins, which may have 100 MB: one is read when it is not as it was by
// inode, size and time, and now and then anyway. Content decides.
type programs struct {
	seen  map[string]program // by path
	looks int
}

type program struct {
	info   fs.FileInfo
	digest string // of the content; "" where it cannot be read
}

// digest is over what the files have.
func (p *programs) digest(paths []string) string {
	whole := p.looks%readEvery == 0
	p.looks++
	seen := make(map[string]program, len(paths))
	var all strings.Builder
	for _, path := range paths {
		last := p.seen[path]
		info, err := os.Stat(path)
		if err != nil {
			seen[path] = program{}
		} else if last.info == nil || whole || !os.SameFile(info, last.info) || info.Size() != last.info.Size() ||
			!info.ModTime().Equal(last.info.ModTime()) {
			content, _ := host.Digest(path) // "" is what it has, too
			seen[path] = program{info, content}
		} else {
			seen[path] = last
		}
		all.WriteString(path + "\x00" + seen[path].digest + "\x00")
	}
	p.seen = seen
	return all.String()
}

// programPaths are where the plugins of providers are looked for, but for built-in ones.
func (c *configuration) programPaths(sources []host.Source) []string {
	var paths []string
	for _, s := range sources {
		if path := c.host.File(s); path != "" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func sourcesOf(cfg *config.Config) []host.Source {
	var sources []host.Source
	for _, p := range cfg.Providers {
		sources = append(sources, host.Source{Plugin: p.Plugin, Dir: cfg.Gateway.PluginDir, SHA256: p.SHA256})
	}
	return sources
}

// replaced are the providers whose plugins' files are not what runs of them.
func (g *Generation) replaced() []string {
	var names []string
	for _, p := range g.plugins {
		if now, err := p.Find(); err == nil && now != p.Origin() {
			names = append(names, p.Name())
		}
	}
	return names
}
