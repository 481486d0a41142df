package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// configure makes the settings for a service, with a file that holds a token.
func configure(t *testing.T, s *upstream.Server, token string) (file string, values []byte) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	values, err := json.Marshal(map[string]string{"base_url": s.BaseURL(), "token_file": file})
	require.NoError(t, err)
	return file, values
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "tok-1"})
	_, values := configure(t, s, "tok-1")
	providertest.Run(t, New, providertest.Options{Settings: values})
}

func TestATokenThatIsRenewed(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "tok-2"})
	file, values := configure(t, s, "tok-1")
	p := New()
	require.NoError(t, provider.Configure(t.Context(), p, values))
	req := &llm.Request{
		Model:     "m",
		MaxTokens: 9,
		Messages:  []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}},
	}
	ignore := func(llm.Event) error { return nil }
	err := p.Generate(t.Context(), req, ignore)
	require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
	require.ErrorContains(t, err, "check token_file")
	require.NotContains(t, err.Error(), "tok-1")

	require.NoError(t, os.WriteFile(file, []byte("tok-2"), 0o600))
	require.NoError(
		t,
		p.Generate(t.Context(), req, ignore),
		"the upstream refuses the old one, and the file is read again",
	)

	require.NoError(t, os.Remove(file))
	require.NoError(t, p.Generate(t.Context(), req, ignore), "it holds for a minute")
}

func TestTheReadmeShowsThisCode(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../plugins/README.md")
	require.NoError(t, err)
	from := strings.Index(string(code), "// Token says")
	require.Contains(t, string(readme), "```go\n"+string(code[from:])+"```\n", "copy it into the README")
}
