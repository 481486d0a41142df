package gateway

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	const path = "github.com/fareway/fareway"
	vcs := []debug.BuildSetting{{Key: "vcs.modified", Value: "false"}, {Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.time", Value: "2026-11-25T23:15:00Z"}}
	dirty := append([]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, vcs[1:]...)
	main := func(version string) debug.Module { return debug.Module{Path: path, Version: version} }
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":                            {Main: main("v1.2.3"), Settings: vcs},
		"devel":                             {Main: main("(devel)")},
		"devel-20261125231500-0123456789ab": {Main: main("(devel)"), Settings: vcs},
		"devel-20261125231500-0123456789ab+dirty": {Main: main(""), Settings: dirty},
		"v1.2.4":  {Main: debug.Module{Path: "caddy"}, Deps: []*debug.Module{{Path: path, Version: "v1.2.4"}}},
		"unknown": {Main: debug.Module{Path: "caddy", Version: "v9"}},
	} {
		require.Equal(t, want, versionOf(info))
	}
	require.Equal(t, "devel", versionOf(&debug.BuildInfo{Main: debug.Module{Path: "caddy"},
		Deps: []*debug.Module{{Path: path, Version: "(devel)"}}}))
	require.NotEmpty(t, Version())
}
