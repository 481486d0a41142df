package engine

import (
	"os"

	"github.com/fareway/fareway/plugins/builtin"
)

// selfCommand starts this executable again. /proc/self/exe stays right when the file is replaced by an
// upgrade, where os.Executable does not.
func selfCommand(plugin string) ([]string, bool) {
	if !builtin.Has(plugin) {
		return nil, false
	}
	exe := "/proc/self/exe"
	if _, err := os.Stat(exe); err != nil {
		if exe, err = os.Executable(); err != nil {
			return nil, false
		}
	}
	return []string{exe, "gateway", "provider", plugin}, true
}
