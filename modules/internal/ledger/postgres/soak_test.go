//go:build soak

package postgres_test

import "testing"

func TestSoakRandomRun(t *testing.T) {
	t.Parallel()
	randomRun(t, 500_000)
}
