package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const initKey = "sk-init-zq11"

// initWith runs `gateway init` with an environment that has one key, and with answers where there is a person.
func initWith(t *testing.T, r *initRun, answers *string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	r.env = func(name string) (string, bool) {
		if name == "THE_KEY" {
			return initKey, true
		}
		return "", false
	}
	if r.local == nil {
		r.local = map[string]string{} // a machine with nothing on it
	}
	if answers != nil {
		r.person = newPerson(strings.NewReader(*answers), &out)
	}
	cmd := r.command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	require.NotContains(t, out.String(), initKey)
	if err != nil {
		require.NotContains(t, err.Error(), initKey)
	}
	return out.String(), err
}

// A few questions, and a first file that works.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	ollama := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{
		"qwen3:4b": {Context: 262144, Capabilities: []string{"completion", "tools"}},
		"llama3.2": {Context: 8192, Capabilities: []string{"completion"}},
		"nomic":    {Context: 512, Capabilities: []string{"embedding"}},
	}})
	vllm := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{"big": {Context: 4096}}})
	hosted := upstream.Start(t, upstream.Options{APIKey: initKey, Models: []string{"gpt-5", "gpt-5-mini", "o9"}})
	local := map[string]string{"ollama": ollama.URL(), "vllm": vllm.BaseURL()}
	for name, c := range map[string]struct {
		answers string
		args    []string
		local   map[string]string
	}{
		"local": {"\n\n2, llama3.2\n\n0.05 / 0.20\n", nil, local},
		"other": {"x\n99\n15\nnowhere\n" + hosted.BaseURL() + "\nTHE KEY\nTHE_KEY\nmini\n1\nfree\n0.25/2\n", nil, local},
		"service": {
			"\nmini\n1,gpt-5\n1/2\n",
			[]string{"--service", "openai", "--base-url", hosted.BaseURL(), "--key-env", "THE_KEY"},
			nil,
		},
		"no key": {"openai\nOPENAI_API_KEY\n1\n", nil, nil},
		"nobody": {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, err := initWith(t, &initRun{local: c.local}, &c.answers, append([]string{"--data", dir}, c.args...)...)
			file, _ := os.ReadFile(filepath.Join(dir, hclFile))
			if err != nil {
				require.Empty(t, file)
				out += "Error: " + err.Error() + "\n"
			}
			require.NotContains(t, string(file), initKey)
			text := out + "\n" + string(file)
			for address, name := range map[string]string{ollama.URL(): "http://OLLAMA", vllm.URL(): "http://VLLM",
				hosted.URL(): "http://HOSTED", dir: "DATA"} {
				text = strings.ReplaceAll(text, address, name)
			}
			golden.Equal(t, "testdata/init_"+strings.ReplaceAll(name, " ", "_")+".txt", []byte(text))
		})
	}
}

// Flags in place of answers, for scripts.
func TestInitByFlags(t *testing.T) {
	t.Parallel()
	ollama := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{"only:1b": {Context: 4096}}})
	vllm := upstream.Start(t, upstream.Options{Models: []string{"a", "b"}})
	llama := upstream.Start(t, upstream.Options{Service: "llamacpp", Local: map[string]upstream.Local{
		"devstral": {Context: 12288, Capabilities: []string{"tools"}}}})
	toolless := upstream.Start(t, upstream.Options{Service: "llamacpp", Local: map[string]upstream.Local{
		"smol": {Context: 4096, Capabilities: []string{}}}})
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for name, c := range map[string]struct {
		local map[string]string
		args  []string
		want  []string // in the file; or in the error
		err   bool
	}{
		"the only one there is": {map[string]string{"ollama": ollama.URL()}, nil, []string{`plugin = "ollama"`,
			`base_url = "` + ollama.URL() + `"`, `model          = "only:1b"`, "context_window = 4096",
			"input  = 0 # nobody says"}, false},
		"a llama.cpp server": {map[string]string{"llamacpp": llama.BaseURL()}, nil, []string{`preset   = "llamacpp"`,
			`model          = "devstral"`, "context_window = 12288\n",
			`offers         = ["tools", "json_schema"]` + "\n"}, false},
		"one whose model takes no tools": {map[string]string{"llamacpp": toolless.BaseURL()}, nil, []string{
			"context_window = 4096\n  max_output     = 4096", `offers         = ["json_schema"]` + "\n"}, false},
		"several": {map[string]string{"ollama": ollama.URL(), "vllm": vllm.BaseURL()}, nil,
			[]string{"several servers", "Ollama at " + ollama.URL() + ", 1 model; vLLM", "--service ollama"}, true},
		"none": {nil, nil, []string{"no server of models was found", "--service (ollama, vllm", "--base-url"}, true},
		"of several": {
			map[string]string{"vllm": vllm.BaseURL()}, nil, []string{"say which model with --model: vLLM has a, b"}, true,
		},
		"two models": {
			map[string]string{"vllm": vllm.BaseURL()},
			[]string{"--model", "a,b", "--context-window", "9000", "--max-output", "900"},
			[]string{`route "a"`, `route "b"`, "context_window = 9000\n  max_output     = 900\n", `preset   = "vllm"`},
			false,
		},
		"a wrong model": {
			map[string]string{"vllm": vllm.BaseURL()},
			[]string{"--model", "c"},
			[]string{`vLLM has no model "c"; it has a, b`},
			true,
		},
		"a usual price": {
			nil,
			[]string{"--service", "openai", "--model", "gpt-5-mini"},
			[]string{`api_key = env("OPENAI_API_KEY")`, "output     = 2.00", `"tools"`},
			false,
		},
		"no price": {
			nil,
			[]string{"--service", "openai", "--model", "other"},
			[]string{"nobody says what other costs", "--price INPUT/OUTPUT"},
			true,
		},
		"a price": {nil, []string{"--service", "anthropic", "--model", "claude-x", "--price", "$1 / $2"},
			[]string{`provider "anthropic"`, "input  = 1\n    output = 2\n", "a guess: take out"}, false},
		"no model": {
			nil, []string{"--service", "groq"}, []string{"GROQ_API_KEY is not set here, so Groq cannot be asked"}, true,
		},
		"away": {nil, []string{"--base-url", away.URL}, []string{"check that it is running"}, true},
		"away, and a model": {nil, []string{"--base-url", away.URL, "--model", "m", "--price", "0/0"},
			[]string{`base_url = "` + away.URL + `"`, "a guess: the upstream does not say"}, false},
		"a wrong service": {nil, []string{"--service", "opena"}, []string{`did you mean "openai"?`}, true},
		"no service":      {nil, []string{"--service", "zzz"}, []string{"it is one of ollama, vllm", "--base-url"}, true},
		"azure":           {nil, []string{"--service", "azure"}, []string{"examples/backends/azure.hcl"}, true},
		"a key": {
			nil, []string{"--service", "openai", "--key-env", initKey}, []string{"--key-env is the name of a variable"}, true,
		},
		"a wrong price": {
			nil,
			[]string{"--service", "openai", "--model", "m", "--price", "cheap"},
			[]string{`--price "cheap": write what`},
			true,
		},
		"a wrong address": {
			nil, []string{"--base-url", "ftp://h", "--model", "m", "--price", "0/0"}, []string{"base_url"}, true,
		},
		"a wrong window": {
			nil,
			[]string{"--base-url", away.URL, "--model", "m", "--price", "0/0", "--context-window", "-1"},
			[]string{"nothing was written", "context_window must be at least 1"},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "new", "my.hcl")
			out, err := initWith(t, &initRun{local: c.local}, nil, append([]string{"--file", path}, c.args...)...)
			text := ""
			if c.err {
				require.Error(t, err, out)
				require.NoFileExists(t, path)
				text = err.Error()
			} else {
				require.NoError(t, err, out)
				file, err := os.ReadFile(path)
				require.NoError(t, err)
				text = string(file)
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
				require.Contains(t, out, "config "+path)
				require.Equal(t, slices.Contains(c.args, away.URL), strings.Contains(out, "The models were taken as you wrote "+
					"them: asking the upstream of provider"), out)
			}
			for _, want := range c.want {
				require.Contains(t, text, want)
			}
		})
	}
}

// A file that is there stays, but for one that nobody has changed since \`up\` wrote it.
func TestInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, hclFile)
	args := []string{"--data", dir, "--service", "openai", "--model", "gpt-5-mini"}
	mine := "# mine\n"
	require.NoError(t, os.WriteFile(path, []byte(mine), 0o600))
	_, err := initWith(t, new(initRun), nil, args...)
	require.EqualError(t, err, path+" is there already: --force replaces it, and --file names another")
	for answer, want := range map[string]string{"\n": "nothing was written", "no\n": "nothing was written",
		"": "no answer came"} {
		_, err = initWith(t, new(initRun), &answer, args...)
		require.ErrorContains(t, err, want)
	}
	found, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, mine, string(found))

	answers := "what?\ny\n\n"
	out, err := initWith(t, new(initRun), &answers, args...)
	require.NoError(t, err, out)
	require.Contains(t, out, path+" is there already. Replace it? (y/n) [n] Answer y or n.\n")
	_, err = initWith(t, new(initRun), nil, args...)
	require.Error(t, err, "this one is the operator's")
	_, err = initWith(t, new(initRun), nil, append(args, "--force")...)
	require.NoError(t, err)

	content, err := starter{}.content(hclFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	out, err = initWith(t, new(initRun), nil, args...)
	require.NoError(t, err, out)
	require.Contains(t, out, "export OPENAI_API_KEY=...")
	require.Contains(t, out, "fareway gateway up --data "+dir)
}

// What is no server of models is none, whatever it answers.
func TestFindLocal(t *testing.T) {
	t.Parallel()
	at := map[string]string{}
	for name, body := range map[string]string{"ollama": `{"models":null}`, "vllm": `<html>`, "llamacpp": `{"models":[]}`,
		"lmstudio": `{"data":[{"id":"m"}]}`} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.Contains(t, []string{"/v1/models", "/api/tags"}, r.URL.Path)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		at[name] = s.URL
		if name != "ollama" {
			at[name] += "/v1"
		}
	}
	found := findLocal(t.Context(), at)
	require.Len(t, found, 1)
	require.Equal(t, "LM Studio at "+at["lmstudio"]+", 1 model", found[0].String())
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	require.Empty(t, findLocal(t.Context(), map[string]string{"vllm": s.URL, "lmstudio": "http://[broken"}))
}

// Every preset is a service to choose, where a few questions are enough for it; the usual addresses are the presets'.
func TestServicesAreThePresets(t *testing.T) {
	t.Parallel()
	schema, err := builtin.Schema("openai")
	require.NoError(t, err)
	for _, a := range schema.Attributes {
		if a.Name != "preset" {
			continue
		}
		for _, preset := range a.OneOf {
			_, ok := findService(preset)
			require.Equal(t, preset != "azure", ok, preset)
		}
	}
	for _, s := range services {
		require.True(t, builtin.Has(s.plugin), s.name)
		require.NotEqual(t, s.local == "", s.keyEnv == "", s.name)
		require.True(t, strings.Contains(initCommand().Long, s.name), s.name)
	}
	require.True(t, slices.IsSortedFunc(services, func(a, b service) int {
		return map[bool]int{a.local == "" && b.local != "": 1}[true]
	}), "local ones first")
}
