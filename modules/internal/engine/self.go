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
	exe, err := selfPath()
	if err != nil {
		return nil, false
	}
	return []string{exe, "gateway", "provider", plugin}, true
}

func selfPath() (string, error) {
	const exe = "/proc/self/exe"
	if _, err := os.Stat(exe); err != nil {
		return os.Executable()
	}
	return exe, nil
}
