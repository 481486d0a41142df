package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsInClear(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"http://ai.example.com": true, "http://ai.example.com:8080": true,
		"https://ai.example.com": false, "http://127.0.0.1:8484": false, "http://localhost": false, "http://[::1]:80": false,
		"http://10.1.2.3": false, "": false} {
		require.Equal(t, want, isInClear(address), address)
	}
}
