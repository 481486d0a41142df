package exchange

import (
	"testing"

	"github.com/fareway/fareway/modules/internal/partstest"
)

// TestPartsKeepToThemselves: no part of an exchange selects or sets a field of another one, but for what connect gives
// it. An attempt and its reply are changed by those alone that make attempts.
func TestPartsKeepToThemselves(t *testing.T) {
	t.Parallel()
	partstest.Parts{
		Shared: "scope",
		Order: []string{"prompt", "delivery", "feedback", "caching", "screening", "books", "transport", "work", "admission",
			"exchange"},
		Of:     map[string]string{"race": "work", "racer": "work", "shadow": "exchange"},
		Values: map[string][]string{"attempt": {"transport", "work"}, "reply": {"transport"}},
	}.Check(t)
}
