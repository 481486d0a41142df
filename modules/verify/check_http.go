package verify

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

func httpChecks() []*Check {
	var checks []*Check
	for _, s := range posts {
		for _, bad := range []string{`{"model":`, ` `, `[]`, `{} x`} {
			checks = append(checks, check("HTTP-02 HTTP-01", "the body "+bad+" on "+s.Path, func(t *T) {
				t.refused(s, t.do(call{Method: "POST", Path: s.Path, Body: bad}), 400, invalid)
			}))
		}
		checks = append(checks, check("HTTP-03", "a declared size of 1 GiB on "+s.Path, func(t *T) { t.tooLarge(s) }))
	}
	return append(checks, twins("EP-02", chat, "/chat/completions"), twins("EP-06", messages, "/messages"))
}

// twins checks that a path without /v1 does what its twin does: replies, streams and refusals.
func twins(ids string, s shape, path string) *Check {
	return check(ids+" VER-02", path+" beside "+s.Path, func(t *T) {
		short := s
		short.Path = path
		v, _ := t.visit(placeOf(path))
		t.replyForm(short, v)
		t.stream(short).requireEnd(t, short)
		t.refused(short, t.ask(short, `"model":""`), 400, invalid)
		nobody := call{Path: path, Body: t.body(short), Header: http.Header{"Authorization": nil}}
		t.refused(short, t.do(nobody), 401, authentication)
		if s.Name == "messages" {
			nobody.Header = http.Header{"Authorization": nil, "X-Api-Key": {t.key}}
			t.ok(short, t.do(nobody))
		}
	})
}

// errNotAsked is what a body says that should never be read.
var errNotAsked = errors.New("the deployment asked for the body before it looked at the size")

type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, errNotAsked }

// tooLarge declares a body of 1 GiB and waits for the refusal without sending any of it (GAP-33).
func (t *T) tooLarge(s shape) {
	ctx, cancel := context.WithTimeout(t.ctx, t.limits.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+s.Path, io.NopCloser(unreadable{}))
	if err != nil {
		t.Fatalf("making the request: %v", err)
	}
	req.ContentLength = 1 << 30
	req.Header.Set("Expect", "100-continue")
	req.Header.Set("Authorization", "Bearer "+t.key)
	req.Header.Set("User-Agent", userAgent())
	t.requests.Add(1)
	resp, err := t.client.Do(req)
	if err != nil {
		t.Pendingf("%v", withoutURL(err))
	}
	defer resp.Body.Close()
	c := call{Path: s.Path, Body: "(1 GiB)"}
	t.refused(s, t.read(c, resp), 413, invalid)
	t.Notef("checked by the declared size, without sending a body")
}

func authChecks() []*Check {
	var checks []*Check
	bearer := map[string]string{
		"/v1/chat/completions": "AUTH-03", "/chat/completions": "AUTH-03", "/v1/responses": "AUTH-04",
		"/v1/models": "AUTH-05", "/models": "AUTH-05",
		"/v1/models/service/auto": "AUTH-05", "/models/service/auto": "AUTH-05", "/v1/account": "AUTH-06 AUTH-19",
		"/v1/messages": "AUTH-07",
		"/messages":    "AUTH-07", "/v1/messages/count_tokens": "AUTH-09", "/messages/count_tokens": "AUTH-09",
	}
	for _, p := range places {
		checks = append(checks, visits(bearer[p.path], p.path))
		refuse := func(ids, what string, header func(*T) http.Header) {
			checks = append(checks, check(ids+" ERR-15", what+" on "+p.path, func(t *T) {
				t.refused(p.shape, t.do(p.call(t, header(t))), 401, authentication)
			}))
		}
		refuse("AUTH-01 AUTH-10 HTTP-08", "no key", func(*T) http.Header { return http.Header{"Authorization": nil} })
		refuse("AUTH-11", "a key with one character changed", func(t *T) http.Header {
			return http.Header{"Authorization": {"Bearer " + mistyped(t.key)}}
		})
		if p.shape.Name == "messages" {
			ids := "AUTH-08"
			if p.shape.Path == count.Path {
				ids = "AUTH-09"
			}
			checks = append(checks, check(ids, "x-api-key on "+p.path, func(t *T) {
				t.ok(p.shape, t.do(p.call(t, http.Header{"Authorization": nil, "X-Api-Key": {t.key}})))
			}))
			refuse(ids, "a wrong x-api-key", func(t *T) http.Header {
				return http.Header{"Authorization": nil, "X-Api-Key": {mistyped(t.key)}}
			})
			continue
		}
		refuse("AUTH-13", "x-api-key alone", func(t *T) http.Header {
			return http.Header{"Authorization": nil, "X-Api-Key": {t.key}}
		})
	}
	for _, value := range []string{"", "Bearer ", "Bearer"} {
		checks = append(checks, check("AUTH-10 ERR-15", "Authorization: "+value, func(t *T) {
			t.refused(lookups, t.do(call{Path: "/v1/account", Header: http.Header{"Authorization": {value}}}), 401,
				authentication)
		}))
	}
	checks = append(checks, check("AUTH-11 ERR-15", "Basic", func(t *T) {
		t.refused(lookups, t.do(call{Path: "/v1/account", Header: http.Header{"Authorization": {"Basic " + t.key}}}), 401,
			authentication)
	}))
	return checks
}

// mistyped is the key with its last character changed.
func mistyped(key string) string {
	if strings.HasSuffix(key, "A") {
		return key[:len(key)-1] + "B"
	}
	return key[:len(key)-1] + "A"
}

func errorChecks() []*Check {
	var checks []*Check
	for _, s := range posts {
		first := map[string]string{"chat": " CHAT-02", "responses": " RESP-02"}[s.Name]
		checks = append(checks, check("ERR-10"+first, "no "+s.Input+" on "+s.Path, func(t *T) {
			t.refused(s, t.do(call{Path: s.Path, Body: t.without(s, s.Input)}), 400, invalid)
		}))
		for _, member := range []string{quote(s.Input) + ":7", quote(s.Allowance) + `:"a"`, `"tools":{}`} {
			checks = append(checks, check("ERR-11", member+" twice on "+s.Path, func(t *T) {
				for range 2 {
					t.refused(s, t.ask(s, member), 400, invalid)
				}
			}))
		}
	}
	// Every refusal of the suite is compared with the whole form; these name the clauses of the form.
	form := func(ids string, s shape, member string, status int, code string) {
		checks = append(checks, check(ids, "the form of an error on "+s.Path,
			func(t *T) { t.refused(s, t.ask(s, member), status, code) }))
	}
	for _, s := range shapes {
		own := "ERR-01 ERR-02 ERR-03 BILL-32"
		if s.Name == "messages" {
			own = "ERR-02 ERR-04 ERR-05 BILL-32"
		}
		form(own, s, `"model":null`, 400, invalid)
		form(own, s, quote(s.Allowance)+":1000000000", 503, featureUnavailable)
	}
	form("ERR-04 ERR-05 BILL-32", count, `"model":null`, 400, invalid)
	form("ERR-04 ERR-08", count, `"model":"service/nope"`, 404, modelNotFound)
	form("ERR-13", chat, `"n":2`, 400, unsupported)
	form("ERR-13", responses, `"store":true`, 400, unsupported)
	checks = append(checks, check("ERR-13", "the same request without what is not offered", func(t *T) {
		for _, s := range []shape{chat, responses} {
			t.visit(placeOf(s.Path))
		}
	}))
	for _, p := range []string{"/v1/models", "/v1/account"} {
		checks = append(checks, check("ERR-01 ERR-03", "the form of an error on "+p, func(t *T) {
			t.refused(lookups, t.do(call{Path: p, Header: http.Header{"Authorization": nil}}), 401, authentication)
		}))
	}
	return checks
}
