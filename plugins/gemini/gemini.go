// Package gemini is the provider for Google's models: by the Gemini API, with a key, or by Vertex AI, with a service
// account.
//
// It says where calls go, and for a service account fetches the tokens that they show; package endpoint makes the
// calls, in the gateway or in this provider's process. Replies are always streamed. What the model thinks is hidden,
// and is part of the output that the service reports. This API cannot prove what was used after a cancel, so it is no
// provider.CancelProver: the gateway reads abandoned replies to their end.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/provider"
)

const (
	// service is where the Gemini API is (ai.google.dev/api, "v1beta": the version that takes tools with JSON Schema).
	service = "https://generativelanguage.googleapis.com/v1beta"
	// everywhere is the location of Vertex AI that is none in particular, and has the latest models.
	everywhere = "global"
)

// Settings are what an operator can set.
type Settings struct {
	BaseURL        string `hcl:"base_url,optional"`
	APIKey         string `hcl:"api_key,optional" secret:"true"`
	ServiceAccount string `hcl:"service_account,optional" secret:"true"`
	Project        string `hcl:"project,optional"`
	Location       string `hcl:"location,optional"`
	ThinkingBudget *int64 `hcl:"thinking_budget,optional"`
	ThinkingLevel  string `hcl:"thinking_level,optional"`
	provider.Connection
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"base_url": "Where the service is: its address up to what comes before /models, or, with a service account, before " +
			"/projects. Over http:// prompts and the key travel in clear. Default: \"" + service + "\", or the address of " +
			"Vertex AI in the location.",
		"api_key": "The key of the Gemini API, sent as x-goog-api-key. White space around it is dropped. Default: none; " +
			"it or service_account is needed.",
		"service_account": "The key file of a service account that may use Vertex AI, JSON as Google makes it: " +
			"file(\"service-account.json\"). Calls show a token that is fetched with it and renewed before it expires. " +
			"Default: none.",
		"project": "With a service account: the project that is charged. Default: the service account's own.",
		"location": "With a service account: where the models run, such as \"us-central1\" or \"europe-west4\". Default: \"" +
			everywhere + "\".",
		"thinking_budget": "How many tokens the model may think for before it answers, which are charged as output: 0 for " +
			"none, where the model allows it, -1 for as many as it wants. For models before Gemini 3. Default: the model's.",
		"thinking_level": "The same for models since Gemini 3: \"minimal\", \"low\", \"medium\" or \"high\"; which of them " +
			"a model has says its documentation. Default: the model's.",
	}
}

// Choices implements provider.Choosy.
func (Settings) Choices() map[string][]string {
	return map[string][]string{"thinking_level": {"minimal", "low", "medium", "high"}}
}

// Gemini is the provider.
type Gemini struct {
	provider.Carried
	settings Settings
	now      func() time.Time // the clock that tokens expire by

	endpoint endpoint.Endpoint // but for address and token
	base     *url.URL          // what the path of a model is below
	models   string            // the path of models whose name is no path, with a slash at its end
	tokens   *tokens           // nil with a key
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &Gemini{now: time.Now} }

// Settings implements provider.Configurable.
func (g *Gemini) Settings() any { return &g.settings }

// Start implements provider.Starter: it checks the settings. Neither the service nor the server of tokens is asked
// anything, for one that is down now must not keep a gateway from starting.
func (g *Gemini) Start(context.Context) error {
	s := &g.settings
	switch {
	case s.APIKey == "" && s.ServiceAccount == "":
		return errors.New(`setting api_key or service_account is needed; write api_key = env("GEMINI_API_KEY")`)
	case s.APIKey != "" && s.ServiceAccount != "":
		return errors.New("settings api_key and service_account exclude each other; leave one of them out")
	case s.ServiceAccount == "" && s.Project+s.Location != "":
		return errors.New("settings project and location need service_account")
	case s.ThinkingBudget != nil && s.ThinkingLevel != "":
		return errors.New("settings thinking_budget and thinking_level exclude each other; leave one of them out")
	case s.ThinkingBudget != nil && *s.ThinkingBudget < -1:
		return errors.New("setting thinking_budget must be a number of tokens, 0 for none, or -1 for as many as " +
			"the model wants")
	}
	g.endpoint = endpoint.Endpoint{Dialect: endpoint.Gemini, URL: service, AlwaysStream: true, // the only way to ask
		ThinkingBudget: s.ThinkingBudget, ThinkingLevel: s.ThinkingLevel}
	address, path := service, "/v1beta"
	if s.ServiceAccount != "" {
		path = "/v1"
		var err error
		if address, err = g.startVertex(); err != nil {
			return err
		}
	} else {
		key, err := provider.Secret("api_key", s.APIKey)
		if err != nil {
			return err
		}
		g.models = "models/"
		g.endpoint.Headers = []endpoint.Header{{Name: "X-Goog-Api-Key", Value: key}}
	}
	var err error
	if g.base, err = endpoint.Base("base_url", cmp.Or(s.BaseURL, address)); err != nil {
		return err
	}
	g.base.Path = cmp.Or(g.base.Path, path)
	return s.Apply(&g.endpoint)
}

// placeName is a name of a project or of a location, which become parts of an address.
var placeName = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]*$`)

// startVertex reads the settings of Vertex AI and returns its address.
func (g *Gemini) startVertex() (string, error) {
	s := &g.settings
	account, err := readAccount(s.ServiceAccount)
	if err != nil {
		return "", err
	}
	project, location := cmp.Or(s.Project, account.Project), cmp.Or(s.Location, everywhere)
	switch {
	case project == "":
		return "", errors.New("setting project is needed; the service account's file names none")
	case !placeName.MatchString(project):
		return "", errors.New("setting project must be a project's id, such as \"my-project-123\"")
	case !placeName.MatchString(location):
		return "", errors.New("setting location must be a location's name, such as \"us-central1\"")
	}
	g.models = fmt.Sprintf("projects/%s/locations/%s/publishers/google/models/", project, location)
	g.endpoint.Settings.Key = "service_account"
	g.tokens = &tokens{account: account, now: g.now}
	if location == everywhere {
		return "https://aiplatform.googleapis.com/v1", nil
	}
	return "https://" + location + "-aiplatform.googleapis.com/v1", nil
}

// Endpoint implements provider.Endpointer.
func (g *Gemini) Endpoint(ctx context.Context, target provider.Target) (*endpoint.Endpoint, error) {
	e := g.endpoint
	// A model is a name, or a path of its own: "tunedModels/mine", "projects/.../endpoints/7".
	path := strings.Split(target.Model, "/")
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	name := strings.Join(path, "/")
	if len(path) == 1 {
		name = g.models + name
	}
	u := g.base.JoinPath(name + ":streamGenerateContent")
	u.RawQuery = "alt=sse"
	e.URL = u.String()
	if g.tokens == nil {
		return &e, nil
	}
	client, err := g.HTTP(&g.endpoint)
	if err != nil {
		return nil, err
	}
	token, err := g.tokens.get(ctx, client, target.Refused)
	if err != nil {
		return nil, err
	}
	e.Headers = append([]endpoint.Header{{Name: "Authorization", Value: "Bearer " + token.AccessToken}}, e.Headers...)
	e.Expires = token.Expiry
	return &e, nil
}

var (
	_ provider.Provider     = (*Gemini)(nil)
	_ provider.Configurable = (*Gemini)(nil)
	_ provider.Starter      = (*Gemini)(nil)
	_ provider.Endpointer   = (*Gemini)(nil)
)
