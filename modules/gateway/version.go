package gateway

import (
	"runtime/debug"
	"strings"
	"time"
)

// Version is this module's version in the executable: its main module, or a dependency in a build by xcaddy. Of a
// build that has none it is "devel", with the time and the commit that it was built from as far as the executable says
// them: "devel-20261125231500-0123456789ab", and "+dirty" behind it where files had been changed. It is "unknown"
// where the executable says nothing.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	const path = "github.com/fareway/fareway"
	for _, m := range info.Deps {
		if m.Path == path {
			if m.Version == "" || m.Version == "(devel)" {
				return "devel"
			}
			return m.Version
		}
	}
	switch {
	case info.Main.Path != path:
		return "unknown"
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	text, dirty := "devel", ""
	for _, s := range info.Settings { // sorted by key: the revision comes before its time
		switch s.Key {
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		case "vcs.revision":
			text += "-" + s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				text = strings.Replace(text, "devel", "devel-"+t.UTC().Format("20060102150405"), 1)
			}
		}
	}
	return text + dirty
}

// Commit is the commit that the executable was built from, "" where it does not say. A release's version does not name
// it.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}
