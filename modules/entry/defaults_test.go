package entry

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
)

// TestSlowBodiesAreBoundedByItself: unless the operator says something of it.
func TestSlowBodiesAreBoundedByItself(t *testing.T) {
	t.Parallel()
	server := new(caddyhttp.Server)
	boundBodies(server)
	require.Equal(t, caddy.Duration(30*time.Second), server.ReadIdleTimeout)
	require.EqualValues(t, 1024, server.ReadMinRate)
	for _, own := range []*caddyhttp.Server{{ReadTimeout: 1}, {ReadIdleTimeout: 1}, {ReadMinRate: 1}} {
		idle, rate, whole := own.ReadIdleTimeout, own.ReadMinRate, own.ReadTimeout
		boundBodies(own)
		require.Equal(t, idle, own.ReadIdleTimeout)
		require.Equal(t, rate, own.ReadMinRate)
		require.Equal(t, whole, own.ReadTimeout)
	}
}

func TestRedirectsThatAreForOthersToo(t *testing.T) {
	t.Parallel()
	redirect := func(hosts ...string) caddyhttp.Route {
		set := caddyhttp.MatcherSet{caddyhttp.MatchProtocol("http")}
		if hosts != nil {
			set = append(set, caddyhttp.MatchHost(hosts))
		}
		return caddyhttp.Route{MatcherSets: []caddyhttp.MatcherSet{set}, Handlers: []caddyhttp.MiddlewareHandler{
			caddyhttp.StaticResponse{Headers: http.Header{"Location": {"https://{http.request.host}{http.request.uri}"}}},
		}}
	}
	for name, c := range map[string]struct {
		route  caddyhttp.Route
		ours   []string
		alone  bool
		leads  bool
		remain []string
	}{
		"ours alone":               {redirect("a"), []string{"a", "b"}, true, false, []string{"a"}},
		"others' alone":            {redirect("c"), []string{"a"}, false, true, []string{"c"}},
		"both":                     {redirect("a", "c"), []string{"a"}, false, false, []string{"a"}},
		"for all, and we for some": {redirect(), []string{"a"}, false, true, nil},
		"for all, and we for all":  {redirect(), nil, true, false, nil},
		"some, and we for all":     {redirect("a", "c"), nil, true, false, []string{"a", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, isRedirect(c.route))
			require.Equal(t, c.alone, keepFromRedirect(c.route, c.ours))
			require.Equal(t, c.leads, isRedirect(c.route))
			require.Equal(t, c.remain, hostsOf(c.route))
		})
	}
	require.False(t, isRedirect(caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{&caddyhttp.StaticResponse{
		Headers: http.Header{"Location": {"https://{http.request.host}/"}}}}}), "an operator's own")
	require.True(t, isGateway([]byte(`{"handler": "subroute", "routes": [{"handle": [{"handler":   "fareway"}]}]}`)))
	require.False(t, isGateway([]byte(`{"handler":"static_response"}`)))
}
