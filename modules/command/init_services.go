package command

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/human"
)

// service is one that `init` writes a provider for.
type service struct {
	name   string // of the provider
	title  string // for people
	plugin string
	preset string // of the plugin, "" for none
	keyEnv string // the usual variable of its key, "" for a service without one
	local  string // where it listens by default, of one on the operator's own machines
}

// services are in the order in which people are shown them.
var services = []service{
	{name: "ollama", title: "Ollama", plugin: "ollama", local: "http://127.0.0.1:11434"},
	{name: "vllm", title: "vLLM", plugin: "openai", preset: "vllm", local: "http://127.0.0.1:8000/v1"},
	{name: "llamacpp", title: "llama.cpp", plugin: "openai", preset: "llamacpp", local: "http://127.0.0.1:8080/v1"},
	{name: "lmstudio", title: "LM Studio", plugin: "openai", preset: "lmstudio", local: "http://127.0.0.1:1234/v1"},

	{name: "openai", title: "OpenAI", plugin: "openai", preset: "openai", keyEnv: "OPENAI_API_KEY"},
	{name: "anthropic", title: "Anthropic", plugin: "anthropic", keyEnv: "ANTHROPIC_API_KEY"},
	{name: "gemini", title: "Google Gemini", plugin: "gemini", keyEnv: "GEMINI_API_KEY"},
	{name: "gemini-chat", title: "Google Gemini by its chat endpoint", plugin: "openai", preset: "gemini",
		keyEnv: "GEMINI_API_KEY"},
	{name: "openrouter", title: "OpenRouter", plugin: "openai", preset: "openrouter", keyEnv: "OPENROUTER_API_KEY"},
	{name: "groq", title: "Groq", plugin: "openai", preset: "groq", keyEnv: "GROQ_API_KEY"},
	{name: "mistral", title: "Mistral", plugin: "openai", preset: "mistral", keyEnv: "MISTRAL_API_KEY"},
	{name: "deepseek", title: "DeepSeek", plugin: "openai", preset: "deepseek", keyEnv: "DEEPSEEK_API_KEY"},
	{name: "moonshot", title: "Moonshot AI", plugin: "openai", preset: "moonshot", keyEnv: "MOONSHOT_API_KEY"},
	{name: "together", title: "Together", plugin: "openai", preset: "together", keyEnv: "TOGETHER_API_KEY"},
	{name: "fireworks", title: "Fireworks", plugin: "openai", preset: "fireworks", keyEnv: "FIREWORKS_API_KEY"},
	{name: "xai", title: "xAI", plugin: "openai", preset: "xai", keyEnv: "XAI_API_KEY"},
}

// otherService is any that speaks chat completions, by its address.
var otherService = service{name: "upstream", title: "another service with chat completions", plugin: "openai"}

// timeouts are what is written of them. They are shorter than a route's timeout of 5 minutes, so that another route
// gets its turn. Servers on one's own machine have no bound of replies in one piece but that: how fast they write is
// theirs.
func (s *service) timeouts() string {
	switch {
	case s.keyEnv == "":
		return `    # Loading a model and reading a long prompt take time. Then the next route is tried.
    first_byte_timeout = "4m"
`
	case s.plugin == "gemini": // which always streams
		return `    # Thinking included. Then the next route is tried.
    first_byte_timeout = "3m"
`
	}
	return `    # Thinking included. Then the next route is tried. A reply in one piece begins when it is whole.
    first_byte_timeout  = "3m"
    whole_reply_timeout = "4m"
`
}

func serviceNames() []string {
	names := make([]string, len(services))
	for i, s := range services {
		names[i] = s.name
	}
	return names
}

func findService(name string) (service, bool) {
	for _, s := range services {
		if s.name == name {
			return s, true
		}
	}
	return service{}, false
}

// localServer is one that answers on this machine.
type localServer struct {
	service
	address string
	models  int
}

func (l localServer) String() string {
	return l.title + " at " + l.address + ", " + human.Count(l.models, "model")
}

// lookTime is how long a server on this machine has to answer.
const lookTime = 3 * time.Second

// findLocal looks for servers of models at the addresses where they listen by default. at gives another address of a
// service, nil for the usual ones.
func findLocal(ctx context.Context, at map[string]string) []localServer {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: they are here
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	found := make([]*localServer, len(services))
	var looking sync.WaitGroup
	for i, s := range services {
		if s.local == "" {
			continue
		}
		if at != nil {
			s.local = at[s.name]
		}
		looking.Go(func() {
			if models, ok := probeServer(ctx, client, s); ok {
				found[i] = &localServer{service: services[i], address: s.local, models: models}
			}
		})
	}
	looking.Wait()
	var list []localServer
	for _, l := range found {
		if l != nil {
			list = append(list, *l)
		}
	}
	return list
}

// maxLook bounds what is read of a list.
const maxLook = 1 << 20

// probeServer asks a server how many models it has. Any other program at that address answers something else, or
// nothing.
func probeServer(ctx context.Context, client *http.Client, s service) (models int, ok bool) {
	path := "/models"
	if s.plugin == "ollama" {
		path = "/api/tags"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.local, "/")+path, nil)
	if err != nil {
		return 0, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	var answer struct {
		Data   *[]json.RawMessage `json:"data"`
		Models *[]json.RawMessage `json:"models"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxLook)).Decode(&answer) != nil {
		return 0, false
	}
	list := answer.Data
	if s.plugin == "ollama" {
		list = answer.Models
	}
	if list == nil {
		return 0, false
	}
	return len(*list), true
}
