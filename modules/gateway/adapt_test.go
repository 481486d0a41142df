package gateway

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/fareway/fareway/modules/internal/golden"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/stretchr/testify/require"
)

const adaptSeparator = "\n----------\n"

// TestAdapt adapts each Caddyfile in testdata/adapt and compares the result with what stands below its dashes:
// Caddy's JSON, or the error.
func TestAdapt(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			input, _, _ := bytes.Cut(content, []byte(adaptSeparator))
			golden.Equal(t, file, adapt(t, input))
		})
	}
}

// adapt returns the input, the dashes, and what the adapter makes of the input.
func adapt(t *testing.T, input []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	out.Write(input)
	out.WriteString(adaptSeparator)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(input, map[string]any{"filename": "Caddyfile"})
	if err != nil {
		out.WriteString(err.Error())
	} else {
		require.NoError(t, json.Indent(&out, adapted, "", "\t"))
	}
	out.WriteByte('\n')
	return out.Bytes()
}
