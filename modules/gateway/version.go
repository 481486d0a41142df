package gateway

import "runtime/debug"

// Version is this module's version in the executable: its main module, or a dependency in a build by xcaddy. It is
// "unknown" where the executable does not say.
func Version() string {
	const path = "github.com/fareway/fareway"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}
