package engine

import (
	"testing"

	"github.com/fareway/fareway/modules/internal/partstest"
)

// TestPartsKeepToThemselves: no part of the engine selects or sets a field of another one, but for what connect gives
// it.
func TestPartsKeepToThemselves(t *testing.T) {
	t.Parallel()
	partstest.Parts{
		Shared: "core",
		Order:  []string{"requests", "learning", "configuration", "Engine"},
		Of: map[string]string{"Work": "requests", "RoutePermit": "requests", "Turn": "requests", "Live": "configuration",
			"Open": "Engine"},
	}.Check(t)
}
