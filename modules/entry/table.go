package entry

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/plugins/families"
)

// endpoint is a row of the path table.
type endpoint struct {
	name   string // the metric label
	kind   gateway.Kind
	method string
	family families.Server
}

// table finds the endpoint of a request: exact and case-sensitive paths (GAP-04), and below /models/ any id.
type table struct {
	paths map[string]endpoint
	model endpoint
	chat  families.Server // errors outside every family have the chat family's shape (GAP-02)
	roots map[string]families.Server

	offered string // the endpoints, for people
}

// loadFamilies makes one of each registered family.
func loadFamilies(ctx caddy.Context) ([]families.Server, error) {
	var all []families.Server
	for _, info := range caddy.GetModules("fareway.families") {
		m, err := ctx.LoadModuleByID(string(info.ID), nil)
		if err != nil {
			return nil, fmt.Errorf("loading request family %s: %w", info.ID, err)
		}
		f, ok := m.(families.Server)
		if !ok {
			return nil, fmt.Errorf("module %s is not a request family", info.ID)
		}
		all = append(all, f)
	}
	return all, nil
}

func newTable(all []families.Server) (*table, error) {
	t := &table{paths: make(map[string]endpoint), roots: make(map[string]families.Server)}
	for _, f := range all {
		if f.Name() == "chat" {
			t.chat = f
		}
		for _, e := range f.Endpoints() {
			kind := gateway.Generate
			name := f.Name()
			if e.Kind == families.CountTokens {
				kind, name = gateway.CountTokens, "count_tokens"
			}
			if _, taken := t.paths[e.Path]; taken {
				return nil, fmt.Errorf("two request families answer at %s", e.Path)
			}
			t.paths[e.Path] = endpoint{name: name, kind: kind, method: http.MethodPost, family: f}
			t.roots[e.Path] = f
		}
	}
	if t.chat == nil {
		return nil, fmt.Errorf("the chat family is not built in: import modules/families")
	}
	models := endpoint{name: "models", kind: gateway.Models, method: http.MethodGet, family: t.chat}
	t.paths["/v1/models"], t.paths["/models"] = models, models
	t.paths["/v1/account"] = endpoint{name: "account", kind: gateway.Account, method: http.MethodGet, family: t.chat}
	t.model = endpoint{name: "model", kind: gateway.Model, method: http.MethodGet, family: t.chat}
	t.offered = t.listOffered()
	return t, nil
}

// find fills in the call's endpoint, or returns the refusal: 404, 405 or 426 (GAP-01 step 2, GAP-02 to
// GAP-04, GAP-104). No key is needed for those.
func (t *table) find(r *http.Request, call *gateway.Call) *families.Error {
	path := r.URL.Path // percent-decoded; a query is ignored
	e, ok := t.paths[path]
	if !ok {
		if id, found := modelID(path); found {
			e, ok = t.model, true
			call.ModelID = id
		}
	}
	if !ok {
		call.Endpoint, call.Family = unknownPath, t.familyOf(path)
		return t.notFound(r, call.Family)
	}
	call.Endpoint, call.Family = e.name, e.family
	if r.Method == e.method || e.method == http.MethodGet && r.Method == http.MethodHead {
		call.Kind = e.kind
		return nil
	}
	if isWebSocket(r) && e.kind == gateway.Generate && e.name == "responses" {
		return &families.Error{Status: http.StatusUpgradeRequired, Code: families.InvalidRequest,
			Message: "WebSocket is not offered here. Trying again does not help: send the request by POST."}
	}
	allow := e.method
	if allow == http.MethodGet {
		allow = "GET, HEAD"
	}
	return &families.Error{Status: http.StatusMethodNotAllowed, Code: families.InvalidRequest, Allow: allow,
		Message: fmt.Sprintf("%s is not allowed on %s. Trying again does not help: use %s.", r.Method, path, e.method)}
}

// unknownPath is the endpoint of the paths that are in no table.
const unknownPath = "unknown"

// names are all endpoints, as metrics have them.
func (t *table) names() []string {
	names := map[string]bool{unknownPath: true, t.model.name: true}
	for _, e := range t.paths {
		names[e.name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// modelID takes the id out of /v1/models/{id}. A trailing or double slash is no id (GAP-04).
func modelID(path string) (string, bool) {
	path = strings.TrimPrefix(path, "/v1")
	id, ok := strings.CutPrefix(path, "/models/")
	if !ok || id == "" || strings.HasPrefix(id, "/") || strings.HasSuffix(id, "/") || strings.Contains(id, "//") {
		return "", false
	}
	return id, true
}

// familyOf chooses the shape of a 404: the family below whose POST path the unknown path lies (GAP-02).
func (t *table) familyOf(path string) families.Server {
	for root, f := range t.roots {
		if f != t.chat && strings.HasPrefix(path, root) && (len(path) == len(root) || path[len(root)] == '/') {
			return f
		}
	}
	return t.chat
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
