//go:build clients && linux

package clients_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// knownNames are the model names in testdata/names.txt: those that clients send on their own. A test of
// modules/internal/routing holds the built-in list to them, without any client.
func knownNames(t testing.TB) (names []string) {
	b, err := os.ReadFile("testdata/names.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names
}
