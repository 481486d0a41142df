package connect

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindAssignment(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"A=b": "b", "A=b # c": "b", "A=b#c": "b#c", "A='b # c'": "b # c", "A=\"b\" c": "b", "A='b": "'b", "A=": "",
		"B=A=c":      "",
		"A=1\nA=2\n": "2", " export A=`b`\r\n": "b", "AA=1": "", "A": "",
	} {
		require.Equal(t, want, findAssignment(text, "A"), text)
	}
}

// TestEveryClientIsPointedSomehow: there is something to paste for each, which has the address, the key and the model,
// in each family that it speaks.
func TestEveryClientIsPointedSomehow(t *testing.T) {
	t.Parallel()
	for _, c := range Clients {
		require.NotEmpty(t, c.Families, c.Name)
		for _, family := range c.Families {
			g := Gateway{URL: "https://models.example.com", Key: "fwk_KEY", Family: family, Window: 1000, Output: 100}
			texts := []string{c.Start, c.Note}
			if c.Env != nil {
				for name, value := range c.Env(g) {
					texts = append(texts, name, value)
				}
			}
			if c.File != nil {
				content, err := c.File(g).Content()
				require.NoError(t, err)
				require.NotEmpty(t, c.File(g).Path)
				require.Contains(t, string(content), g.Key)
				texts = append(texts, string(content))
			}
			for _, e := range c.Examples(g) {
				require.Contains(t, e.Text, g.Key)
				require.NotRegexp(t, `\{(URL|KEY)\}`, e.Text)
				texts = append(texts, e.Text)
			}
			all := strings.Join(texts, "\n")
			for _, want := range []string{g.URL, g.Key, Model} {
				require.Contains(t, all, want, "%s, %s", c.Name, family)
			}
		}
	}
}

// TestCurlIsACommand: a shell takes it as one command with the body that the shape has.
func TestCurlIsACommand(t *testing.T) {
	t.Parallel()
	c, err := Find("curl")
	require.NoError(t, err)
	for _, family := range c.Families {
		text := c.Examples(Gateway{URL: "https://models.example.com", Key: "fwk_KEY", Family: family})[0].Text
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "curl() { printf '%s\\n' \"$@\"; }\n"+text).Output()
		require.NoError(t, err)
		args := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		require.Len(t, args, 7)
		u, err := url.Parse(args[0])
		require.NoError(t, err)
		require.Equal(t, ShapeOf(family).Path, u.Path)
		require.Equal(t, ShapeOf(family).Body, args[6])
	}
}
