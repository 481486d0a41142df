//go:build soak

package postgres_test

import "testing"

func TestSoakRandomRun(t *testing.T) { randomRun(t, 500_000) }
