package verify

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// bodyLimit is the size of the largest body that hastyGate takes, in bytes.
const bodyLimit = 16 << 10

// opsHTTPChecks are about bodies, paths, methods and headers.
func opsHTTPChecks() []opsCheck {
	return []opsCheck{
		{"HTTP-02 ERR-11", "bodies that are not one JSON object", standardGate, requireObjectBodies},
		{"HTTP-03 LIM-13", "the largest body, and one that is larger (GAP-17)", hastyGate, requireBodyLimit},
		{"HTTP-01", "any content type, and no content encoding", standardGate, requireAnyType},
		{"HTTP-04", "the last of two equal members counts", standardGate, requireLastCounts},
		{"HTTP-01", "every body is one line of JSON with its length", standardGate, requireLengths},
		{"VER-01 GEN-17", "paths are exact (GAP-02, GAP-04, GAP-100, GAP-106)", standardGate, requireExactPaths},
		{"EP-04 EP-12 ACCT-14 VER-03", "no path without /v1", standardGate, requireNoShortPaths},
		{"HTTP-01 GEN-17", "wrong methods (GAP-03, GAP-104)", standardGate, requireMethods},
		onEach("SSE-01 SSE-02", "the headers of a stream", standardGate, requireStreamHeaders),
	}
}

func requireObjectBodies(o *ops) {
	before := o.balance()
	for _, s := range posts {
		good := s.Body(prompt)
		for _, body := range []string{`{"model":`, "", ` `, `[]`, `null`, `"text"`, `7`, good + `x`, good + `{}`,
			`{"model":"auto",}`, `{'model':'auto'}`, "{\"model\":\"auto\xff\"}", `{"model":"auto"} // x`, "\xef\xbb\xbf" + good,
			s.Body(prompt, `"x":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000))} {
			for _, kind := range []string{"application/json", "text/plain"} {
				c := call{Method: "POST", Path: s.Path, Body: body, Header: http.Header{"Content-Type": {kind}}}
				o.refused(s, o.do(c), 400, invalid)
			}
		}
	}
	o.untouched(before)
}

func requireBodyLimit(o *ops) {
	before := o.balance()
	padded := func(s shape, size int) call {
		body := s.Body("Hello.", quote(s.Allowance)+":100")
		return call{Path: s.Path, Body: body + strings.Repeat(" ", size-len(body))}
	}
	for _, s := range posts {
		o.refused(s, o.do(padded(s, bodyLimit+1)), 413, invalid)
		for _, size := range []int{bodyLimit + 1, 10 * bodyLimit} {
			o.refused(s, o.sendChunked(padded(s, size)), 413, invalid)
		}
	}
	o.untouched(before)
	for _, s := range posts {
		o.Equal(200, o.do(padded(s, bodyLimit)).Status, "the status of the largest body")
		o.Equal(200, o.sendChunked(padded(s, bodyLimit)).Status, "the status of the largest body, in chunks")
	}
}

// sendChunked sends a body without its length.
func (o *ops) sendChunked(c call) *answer {
	req, err := http.NewRequestWithContext(o.ctx, http.MethodPost, o.base+c.Path,
		struct{ io.Reader }{strings.NewReader(c.Body)})
	o.True(err == nil, "making the request: %v", err)
	req.Header.Set("Authorization", "Bearer "+o.key)
	resp, err := o.client.Do(req)
	o.True(err == nil, "sending a body in chunks: %v", err)
	defer resp.Body.Close()
	return o.read(call{Path: c.Path}, resp)
}

func requireAnyType(o *ops) {
	for _, s := range posts {
		for _, kind := range [][]string{nil, {"text/plain"}, {"application/json; charset=latin1"}, {"nonsense"}} {
			o.Equal(200, o.do(call{Path: s.Path, Body: o.body(s), Header: http.Header{"Content-Type": kind}}).Status,
				"the status of a body of type "+strings.Join(kind, ""))
		}
		encoded := func(encoding string) *answer {
			return o.do(call{Path: s.Path, Body: o.body(s), Header: http.Header{"Content-Encoding": {encoding}}})
		}
		o.Equal(200, encoded("identity").Status, "the status of a body as it is")
		o.refused(s, encoded("gzip"), 400, invalid)
	}
}

func requireLastCounts(o *ops) {
	for _, s := range posts {
		o.Equal(200, o.do(call{Path: s.Path, Body: s.Body(prompt, `"model":7`, `"model":"auto"`)}).Status, "the status")
		o.refused(s, o.do(call{Path: s.Path, Body: s.Body(prompt, `"model":"auto"`, `"model":7`)}), 400, invalid)
	}
}

func requireLengths(o *ops) {
	o.answersText(strings.Repeat("long ", 5000))
	for _, s := range shapes {
		a := o.ask(s)
		o.Equal(200, a.Status, "the status")
		o.Equal(strconv.Itoa(len(a.Raw)), a.Header.Get("Content-Length"), "the Content-Length")
		o.True(!strings.Contains(string(a.Raw), "\n"), "the body has several lines")
	}
}

func requireExactPaths(o *ops) {
	nobody := http.Header{"Authorization": nil}
	for _, p := range places {
		for _, path := range []string{p.path + "/", "/" + p.path, strings.Replace(p.path, "/", "//", 2),
			strings.ToUpper(p.path)} {
			wrong := p
			wrong.path = path
			a := o.do(wrong.call(o.T, nobody))
			o.Equal(404, a.Status, "the status at "+path)
			o.True(!strings.Contains(string(a.Raw), modelNotFound), "the code at %s is that of a model", path)
		}
		queried := p
		queried.path += "?beta=true"
		o.Equal(200, o.do(queried.call(o.T, nil)).Status, "the status with a query at "+p.path)
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/metrics", "/v1/completions", "/v1/embeddings", "/portal"} {
		a := o.do(call{Path: path})
		o.refused(lookups, a, 404, invalid)
		o.requireMessage(a, "GET "+path)
	}
	for _, path := range []string{"/v1/messages/batches", "/messages/x"} {
		a := o.do(call{Path: path})
		o.refused(messages, a, 404, messages.UnknownPath())
		o.requireMessage(a, "that is not offered. What is offered: GET /v1/account, ")
	}
	o.Equal(404, o.do(call{Method: "HEAD", Path: "/api/hello", Header: nobody}).Status, "the status of HEAD /api/hello")
	o.Equal(200, o.do(call{Path: "/v1/chat/%63ompletions", Body: o.body(chat)}).Status, "the status at an escaped path")
}

// requireMessage checks a part of an error's message.
func (o *ops) requireMessage(a *answer, part string) {
	message := str(at(a.JSON(o.T), "error", "message"))
	o.True(strings.Contains(message, part), "the message is %q", message)
}

func requireNoShortPaths(o *ops) {
	before := o.balance()
	for _, header := range []http.Header{nil, {"Authorization": nil}} {
		o.refused(lookups, o.do(call{Path: "/responses", Body: o.body(responses), Header: header}), 404, invalid)
		o.refused(lookups, o.do(call{Path: "/account", Header: header}), 404, invalid)
	}
	o.untouched(before)
}

func requireMethods(o *ops) {
	nobody := http.Header{"Authorization": nil}
	for _, p := range places {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			if method == p.method {
				continue
			}
			a := o.do(call{Method: method, Path: p.path, Header: nobody})
			o.refused(p.shape, a, 405, invalid)
			o.Equal(map[string]string{"GET": "GET, HEAD", "POST": "POST"}[p.method], a.Header.Get("Allow"), "Allow")
			for name := range a.Header {
				o.True(!strings.HasPrefix(name, "Access-Control-"), "the reply has %s", name)
			}
		}
		if p.method == http.MethodGet {
			a := o.do(call{Method: "HEAD", Path: p.path})
			o.Equal(200, a.Status, "the status of HEAD "+p.path)
			o.Equal(0, len(a.Raw), "the length of the body")
			o.Equal(401, o.do(call{Method: "HEAD", Path: p.path, Header: nobody}).Status, "the status without a key")
		}
	}
	upgrade := call{Path: "/v1/responses", Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}}
	o.refused(responses, o.do(upgrade), 426, invalid)
}

func requireStreamHeaders(o *ops, s shape) {
	a := o.ask(s, `"stream":true`)
	o.Equal(200, a.Status, "the status")
	o.Equal("text/event-stream; charset=utf-8", a.Header.Get("Content-Type"), "the Content-Type")
	o.Equal("no-cache, no-transform", a.Header.Get("Cache-Control"), "Cache-Control")
	o.Equal("no", a.Header.Get("X-Accel-Buffering"), "X-Accel-Buffering")
	o.Equal(s.Name == "messages", a.Header.Get("Request-Id") == a.Header.Get("X-Request-Id"),
		"whether there is a Request-Id")
	for _, path := range []string{"/v1/models?stream=true", "/v1/account?stream=true"} {
		a := o.do(call{Method: "GET", Path: path, Body: `{"stream":true}`})
		o.Equal("application/json", a.Header.Get("Content-Type"), "the Content-Type at "+path)
	}
	if s.Name == "messages" { // GAP-66: message_start shows the service's estimate
		first := o.stream(s).Frames[0]
		n, _ := integer(first.At("message", "usage", "input_tokens"))
		o.Equal(o.count(), n, "the input_tokens of message_start")
	}
}
