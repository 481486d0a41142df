package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
)

// TestPortalComesAndGoes: a configuration with the block opens who may sign in, one without closes it, and neither
// needs a restart. Without it nothing is there.
func TestPortalComesAndGoes(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	e := enginetest.On(t, data, nil)
	require.Nil(t, e.People())
	file := filepath.Join(data, "portal.db")
	activate := func(p *config.Portal) *engine.Generation {
		cfg := *e.Current().Config
		cfg.Portal = p
		g, err := e.Prepare(t.Context(), &cfg)
		require.NoError(t, err)
		e.Activate(g)
		return g
	}
	g := activate(&config.Portal{})
	s := e.People()
	require.NotNil(t, s)
	require.NoFileExists(t, file, "it is opened before somebody asks")
	ctx := ledger.WithActor(t.Context(), "somebody")
	link, _, err := s.FirstLink(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, link)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	var acts []string
	require.NoError(t, e.Store().Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		acts = append(acts, a.Actor+" "+a.Action)
		return nil
	}))
	require.Contains(t, acts, "somebody portal.first_link")

	// An issuer takes effect in the same service: whoever has signed in stays that.
	with := activate(&config.Portal{OIDC: []config.OIDC{{Name: "company"}}})
	require.Same(t, s, e.People())
	require.Equal(t, []string{"company"}, s.Issuers())
	without := activate(nil)
	require.Nil(t, e.People())
	require.Eventually(t, func() bool { return s.Ping(t.Context()) != nil }, 10e9, 1e6, "it is closed beside")
	require.ErrorIs(t, s.Ping(t.Context()), people.ErrUnavailable)
	e.Retire(without)
	require.NotNil(t, e.People(), "a reload that was taken back has taken it away")
	_, err = e.People().ReadInvitation(t.Context(), link)
	require.NoError(t, err)
	e.Retire(with)
	e.Retire(g)
	require.Nil(t, e.People())
}
