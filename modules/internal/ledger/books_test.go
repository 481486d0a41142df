package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestActor(t *testing.T) {
	t.Parallel()
	require.Equal(t, "gateway", ledger.ActorOf(t.Context()))
	mary := ledger.WithActor(t.Context(), "mary")
	require.Equal(t, "mary", ledger.ActorOf(mary))
	require.Equal(t, "gateway", ledger.ActorOf(ledger.WithActor(mary, "")))
}

func TestKeyUsable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000, 0)
	for name, c := range map[string]struct {
		key  ledger.Key
		want bool
	}{
		"without an end":         {ledger.Key{}, true},
		"before its end":         {ledger.Key{Expires: now.Add(1)}, true},
		"at its end":             {ledger.Key{Expires: now}, false},
		"revoked":                {ledger.Key{Revoked: true}, false},
		"revoked before its end": {ledger.Key{Revoked: true, Expires: now.Add(1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.key.Usable(now))
		})
	}
}
