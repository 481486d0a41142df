package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody is the largest request that is read, in bytes.
const maxBody = 64 << 20

// Options shape a Server. The zero value answers every good request with Answer.
type Options struct {
	// APIKey is the key that requests must show: as a bearer token, in the messages family as x-api-key or so.
	// Empty: none is asked for.
	APIKey string
	// Service is a service that speaks chat completions and differs from OpenAI, one of Services. Empty: none of them.
	Service string
	// Cache keeps the beginnings of prompts, and reports in usage what was read from there and what was put there.
	Cache bool
	// Models are the models that the service has. Empty: every name is one.
	Models []string
	// Local is what is said of models in Ollama's own API and in lists of models; only these are there then. nil: those
	// of Models.
	Local map[string]Local
	// Template is how many tokens the chat template of the model adds to each prompt.
	Template int64
	// Version is what the server of Ollama's own API calls itself: an old one, which drops of a prompt what does not
	// fit. Empty: a new one.
	Version string
	// Script chooses the reply to a request for which none is queued or set. nil: Answer. It is called by
	// several goroutines.
	Script func(*Request) Reply
	// OnEnd is called with each record before the reply's connection is given back. It is called by
	// several goroutines. nil: records are kept in memory only.
	OnEnd func(Record)
	// Keep is how many of the latest records stay in memory. 0: all of them.
	Keep int
	// Now is the clock of records and replies. nil: time.Now.
	Now func() time.Time
}

// Server is one fake service. It is an http.Handler, and listens by itself when it was made by Start or
// Listen. Its methods may be called by several goroutines.
type Server struct {
	options Options
	state   *state
	mux     *http.ServeMux

	service service

	mu       sync.Mutex // guards the scripts and the cache
	cache    promptCache
	queue    []Reply
	models   map[string]Reply
	fallback *Reply

	url  string
	http *http.Server
	live sync.WaitGroup // the listener and its connections
}

// New makes a Server that does not listen, for a server of the test's own (with TLS, say).
func New(o Options) *Server {
	if o.Script == nil {
		o.Script = Answer
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o, state: newState(o.Keep), mux: http.NewServeMux(), models: map[string]Reply{},
		service: services[o.Service], cache: promptCache{}}
	for _, f := range families {
		for _, path := range append([]string{s.service.address(f)}, f.also...) {
			s.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, f) })
		}
	}
	if s.service.records != "" {
		s.mux.HandleFunc("GET "+s.service.records, s.record)
	}
	if s.service.llama {
		s.props()
	}
	s.ollama()
	s.lists()
	s.bedrockLists()
	s.mux.HandleFunc("/", notFound)
	s.admin()
	return s
}

// Listen makes a Server that listens on a TCP address such as 127.0.0.1:0. Close ends it.
func Listen(address string, o Options) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening as the fake upstream: %w", err)
	}
	s := New(o)
	s.url = "http://" + listener.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ConnState: s.track}
	s.live.Go(func() { _ = s.http.Serve(listener) }) // ends with http.ErrServerClosed
	return s, nil
}

// TB is what Start needs of a testing.TB.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start makes a Server on a free port of the loopback device that ends with the test.
func Start(t TB, o Options) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// URL is the server's address, without a path: http://127.0.0.1:PORT.
func (s *Server) URL() string { return s.url }

// BaseURL is what a client of the service is set to: the address with /v1, or with the path of the service that it
// plays.
func (s *Server) BaseURL() string {
	path := strings.TrimSuffix(s.service.path, "/chat/completions")
	switch {
	case path == "":
		path = "/v1"
	case strings.Contains(path, "{"): // the model is part of it
		path = ""
	}
	return s.url + path
}

// Close cuts all connections off and waits for the end of what was being answered.
func (s *Server) Close() {
	_ = s.http.Close() // connections are being cut off; their errors are the point
	s.live.Wait()
}

// Enqueue adds replies that are given before all others, one to each request, in order.
func (s *Server) Enqueue(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, replies...)
}

// SetModel sets the reply to every request for a model.
func (s *Server) SetModel(model string, reply Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[model] = reply
}

// choose returns the reply to a request.
func (s *Server) choose(req *Request) Reply {
	s.mu.Lock()
	if len(s.queue) > 0 {
		defer s.mu.Unlock()
		reply := s.queue[0]
		s.queue = s.queue[1:]
		return reply
	}
	reply, ok := s.models[req.Model]
	fallback := s.fallback
	s.mu.Unlock()
	switch {
	case ok:
		return reply
	case fallback != nil:
		return *fallback
	}
	return s.options.Script(req)
}

// track counts connections, so that Close can wait for them.
func (s *Server) track(_ net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		s.live.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.live.Done()
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

var _ http.Handler = (*Server)(nil)

func notFound(w http.ResponseWriter, r *http.Request) {
	e := BadRequest("There is no "+r.Method+" "+r.URL.Path+" here.", "")
	e.Status = http.StatusNotFound
	e.write(w, chatFailure(&e))
}

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, f *family) {
	n := s.state.arrive()
	rec := Record{N: n, ID: f.id + strconv.FormatInt(n, 10), Start: s.options.Now(), Header: redacted(r.Header)}
	defer func() {
		rec.End = s.options.Now()
		if s.options.OnEnd != nil {
			s.options.OnEnd(rec)
		}
		s.state.end(rec)
	}()
	if f.address == nil { // the others name their replies only
		w.Header().Set(cmp.Or(s.service.id, "X-Request-Id"), fmt.Sprintf("req-fake-%d", n))
	}
	if s.service.named != "" {
		w.Header().Set(s.service.named, rec.ID)
	}

	req, err := s.accept(r, &rec, f)
	if err != nil {
		var refusal *Error
		if !errors.As(err, &refusal) { // the body could not be read
			rec.Outcome = OutcomeLeft
			return
		}
		rec.Outcome, rec.Status = OutcomeRefused, refusal.Status
		rec.Bytes = f.refuse(w, refusal, s.service)
		return
	}
	reply := s.choose(req)
	s.state.accept(req)
	s.run(r.Context(), w, req, reply, f, &rec)
}

// accept reads and checks a request. An *Error says why the service refuses it.
func (s *Server) accept(r *http.Request, rec *Record, f *family) (*Request, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	rec.Body = jsonOf(body)
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if s.options.APIKey != "" && s.service.credential(r.Header, f) != s.options.APIKey {
		e := InvalidKey()
		return nil, &e
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, invalid("", "the header Content-Type must be application/json")
	}
	if err := f.check(r.Header); err != nil {
		return nil, err
	}
	if err := s.service.check(r, f, body); err != nil {
		return nil, err
	}
	req, err := f.decode(body)
	if err != nil {
		return nil, err
	}
	if f.name == "chat" {
		if err := s.service.returned(req); err != nil {
			return nil, err
		}
		if s.service.llama {
			if err := checkLlama(body, req); err != nil {
				return nil, err
			}
		}
	}
	if deployment := r.PathValue("model"); deployment != "" {
		req.Model = deployment
	}
	if f.address != nil {
		if err := f.address(r, req); err != nil {
			return nil, err
		}
	}
	if err := s.refuse(req, f.name, body); err != nil {
		return nil, err
	}
	req.N, req.ID, req.Family, req.Header, req.Body = rec.N, rec.ID, f.name, rec.Header, body
	req.credential = s.service.credential(r.Header, f)
	rec.Family, rec.Model, rec.Stream = req.Family, req.Model, req.Stream
	if f.fit != nil {
		if err := f.fit(s, req); err != nil {
			return nil, err
		}
	}
	if len(s.options.Models) > 0 && !slices.Contains(s.options.Models, req.Model) {
		e := ModelNotFound()
		return nil, &e
	}
	return req, nil
}

// run plays a reply and writes down how it went.
func (s *Server) run(ctx context.Context, w http.ResponseWriter, req *Request, reply Reply,
	f *family, rec *Record) {
	h := head{ID: req.ID, Model: reply.Model, Created: s.options.Now().Unix()}
	if h.Model == "" {
		h.Model = req.Model
	}
	reply.Usage = cmp.Or(reply.Usage, s.service.mode)
	p := &player{server: s, req: req, reply: reply, family: f, render: s.service.in(f.render(req, reply, h), req),
		out:    newWire(w, reply.Wire),
		header: w.Header(), rec: rec, prompt: promptTokens(req) + s.options.Template}
	if s.options.Cache {
		s.mu.Lock()
		read, written := s.cache.use(req)
		s.mu.Unlock()
		p.meter.cached = &read
		if p.prompt = max(p.prompt, read+written); f.marks {
			p.meter.written = &written
		}
	}
	err := p.play(ctx)
	rec.Outcome, rec.Bytes = outcome(err), p.out.sent
	if broken, ok := errors.AsType[brokenError](err); ok && broken.how != EndClean {
		p.out.hangUp(broken.how)
	}
}
