package endpoint_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

// Receipts survive: by what the upstream is asked is known as soon as it has said it, however its reply ends.
func TestReferences(t *testing.T) {
	t.Parallel()
	const stream, whole = "text/event-stream", "application/json"
	chunk := func(id, text string) string {
		return fmt.Sprintf(`{"id":%q,"choices":[{"index":0,"delta":{"content":%q},"message":{"content":%q}}]}`, id, text,
			text)
	}
	data := func(id, text string) string { return "data: " + chunk(id, text) + "\n\n" }
	const finish = `data: {"id":"gen-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, c := range map[string]struct {
		kind, header, body string
		cut                bool
		want               string // the kinds of events, and the reference in brackets
	}{
		"in the first chunk":     {stream, "", data("gen-1", "a") + data("gen-2", "b") + finish, false, "at[gen-1]tf"},
		"in a later chunk":       {stream, "", data("", "a") + data("gen-2", "b") + finish, false, "att[gen-2]f"},
		"only with the finish":   {stream, "", data("", "a") + finish, false, "at[gen-1]f"},
		"in the head":            {stream, "gen-0", data("gen-1", "a") + finish, false, "a[gen-0]tf"},
		"in no head that is one": {stream, "gen 0", data("gen-1", "a") + finish, false, "at[gen-1]f"},
		"never":                  {stream, "", data("", "a"), true, "at"},
		"before a stream is cut": {stream, "", data("gen-1", "a"), true, "at[gen-1]"},
		"with an error": {stream, "", data("", "a") + `data: {"id":"gen-3","error":{"message":"x"}}` + "\n\n", false,
			"at[gen-3]"},
		"of a reply that is too long": {whole, "", chunk("gen-5", strings.Repeat("x", 2<<20)), false, "a[gen-5]"},
		"a credential":                {stream, "", data("sk-geheim-zq11", "a") + finish, false, "atf"},
		"too long":                    {stream, "", data(strings.Repeat("x", 257), "a"), true, "at"},
		"the longest": {stream, "", data(strings.Repeat("x", 256), "a"), true,
			"at[" + strings.Repeat("x", 256) + "]"},
		"a line's end":               {stream, "", data("a\nb", "a"), true, "at"},
		"of a whole reply":           {whole, "", chunk("gen-1", "a"), false, "at[gen-1]f"},
		"of a whole reply's head":    {whole, "gen-0", chunk("gen-1", "a"), false, "a[gen-0]tf"},
		"of half a reply":            {whole, "", "\n \n" + chunk("gen-1", "a")[:40], true, "a[gen-1]"},
		"of half an id":              {whole, "", chunk("gen-1", "a")[:10], true, "a"},
		"of a head and half a reply": {whole, "gen-0", "{", true, "a[gen-0]"},
		"of a reply that failed":     {whole, "", `{"id":"gen-4","error":{"message":"x"}}`, false, "a[gen-4]"},
		"of a stream in one piece":   {whole, "", data("gen-1", "a"), true, "a[gen-1]"},
	} {
		for _, wanted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", name, wanted), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.kind)
					w.Header().Set("X-Generation-Id", c.header)
					_, _ = w.Write([]byte(c.body)) // the client may be gone
					if c.cut {
						w.(http.Flusher).Flush()
						panic(http.ErrAbortHandler)
					}
				}))
				t.Cleanup(server.Close)
				e := endpoint.Endpoint{Dialect: endpoint.Chat, URL: server.URL, References: wanted,
					ReferenceHeader: "X-Generation-Id",
					Headers:         []endpoint.Header{{Name: "Authorization", Value: "Bearer sk-geheim-zq11"}}}
				d := start(t, e)
				req := ask("x")
				req.Whole, req.MaxTokens = c.kind == whole, 10
				call, err := d.client.Call(withTimeout(t), &d.source, req)
				require.NoError(t, err)
				defer call.Close()
				got := ""
				_ = call.Each(func(ev llm.Event) error { // however it ends
					switch ev.Kind {
					case llm.EventReference:
						got += "[" + ev.ID + "]"
					case llm.EventAccepted:
						got += "a"
					case llm.EventText:
						got += "t"
					case llm.EventFinish:
						got += "f"
					}
					return nil
				})
				want := c.want
				if before, rest, found := strings.Cut(want, "["); found && !wanted {
					_, rest, _ = strings.Cut(rest, "]")
					want = before + rest
				}
				require.Equal(t, want, got)
			})
		}
	}
	e := endpoint.Endpoint{Dialect: endpoint.Chat, URL: "http://x", ReferenceHeader: "no header"}
	require.ErrorContains(t, e.CheckConnection(time.Now()), "is not legal")
}

func TestBase(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://h/v1//": "", "https://h": "", "h": "must begin with http", "http://": "names no host",
		"http://%":      "not a URL",
		"http://user@h": "user name or password", "http://u:geheim@h/v1": "user name or password",
		"http://h?": "query", "http://h?a": "query", "http://h#a": "fragment",
	} {
		u, err := endpoint.Base("base_url", address)
		if want == "" {
			require.NoError(t, err)
			require.NotRegexp(t, "/$", u.String())
			continue
		}
		require.ErrorContains(t, err, want, address)
		require.NotContains(t, err.Error(), "geheim")
	}
}
