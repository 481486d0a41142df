// Package stripetest is as much of Stripe's API as payments ask for, over TLS, and what it would send: for tests. Its
// objects have the shape of docs.stripe.com/api in the version that stripe-go is pinned to.
package stripetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"
)

// Keys that it knows.
const (
	Key    = "sk_test_stripetest"
	Secret = "whsec_stripetest"
)

// Object is one of Stripe's, as its JSON has it.
type Object = map[string]any

// Server is Stripe.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	answers  map[string]Object // by idempotency key
	asked    map[string]string // with what, by the same
	Sessions map[string]Object
	Intents  map[string]Object
	// Decline is the decline code of charges without a customer present, "" for none; Away: it answers nothing.
	Decline string
	Away    bool
	// Lose has it do what it is asked and break the connection before it says so.
	Lose bool
	n    int
}

// New serves it.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{answers: map[string]Object{}, asked: map[string]string{}, Sessions: map[string]Object{},
		Intents: map[string]Object{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/checkout/sessions", s.once(s.makeSession))
	mux.HandleFunc("GET /v1/checkout/sessions/{id}", s.show(s.Sessions))
	mux.HandleFunc("POST /v1/payment_intents", s.once(s.makeIntent))
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.show(s.Intents))
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

// Transport leads to it whatever host is asked for.
func (s *Server) Transport() http.RoundTripper {
	pool := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com",
		MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		}}
}

// Change changes what it is and has.
func (s *Server) Change(change func(s *Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *Server) fail(w http.ResponseWriter, status int, e Object) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Object{"error": e})
}

// once answers a key that it knows as it did before.
func (s *Server) once(make func(f url.Values) (Object, Object)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if s.Away || key == "" || r.ParseForm() != nil || r.Header.Get("Stripe-Version") != stripe.APIVersion ||
			r.Header.Get("Authorization") != "Bearer "+Key {
			s.fail(w, http.StatusUnauthorized, Object{"type": "invalid_request_error", "message": "no"})
			return
		}
		answer, ok := s.answers[key]
		if ok && s.asked[key] != r.PostForm.Encode() {
			s.fail(w, http.StatusBadRequest, Object{"type": "idempotency_error", "message": "other parameters"})
			return
		}
		if !ok {
			s.asked[key] = r.PostForm.Encode()
			var problem Object
			if answer, problem = make(r.PostForm); problem != nil {
				answer = Object{"error": problem}
			}
			s.answers[key] = answer
		}
		if s.Lose {
			panic(http.ErrAbortHandler)
		}
		if answer["error"] != nil {
			w.WriteHeader(http.StatusPaymentRequired)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (s *Server) show(of map[string]Object) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		o, ok := of[r.PathValue("id")]
		if !ok || s.Away {
			s.fail(w, http.StatusNotFound, Object{"type": "invalid_request_error", "code": "resource_missing"})
			return
		}
		_ = json.NewEncoder(w).Encode(o)
	}
}

// inside is what a form has in brackets behind a name.
func inside(f url.Values, name string) Object {
	o := Object{}
	for k, v := range f {
		if key, ok := strings.CutPrefix(k, name+"["); ok {
			o[strings.TrimSuffix(key, "]")] = v[0]
		}
	}
	return o
}

func (s *Server) makeSession(f url.Values) (Object, Object) {
	s.n++
	quantity, _ := strconv.ParseInt(f.Get("line_items[0][quantity]"), 10, 64)
	unit, _ := strconv.ParseInt(f.Get("line_items[0][price_data][unit_amount]"), 10, 64)
	o := Object{"id": fmt.Sprintf("cs_test_%d", s.n), "object": "checkout.session", "status": "open",
		"payment_status": "unpaid", "amount_total": quantity * unit, "amount_subtotal": quantity * unit,
		"currency": f.Get("line_items[0][price_data][currency]"), "client_reference_id": f.Get("client_reference_id"),
		"metadata": inside(f, "metadata"), "livemode": false, "mode": "payment", "payment_intent": nil, "customer": nil,
		"url":         fmt.Sprintf("https://checkout.stripe.com/c/pay/cs_test_%d", s.n),
		"success_url": f.Get("success_url"), "setup": f.Get("payment_intent_data[setup_future_usage]")}
	s.Sessions[o["id"].(string)] = o
	return o, nil
}

func (s *Server) makeIntent(f url.Values) (Object, Object) {
	s.n++
	amount, _ := strconv.ParseInt(f.Get("amount"), 10, 64)
	o := Object{"id": fmt.Sprintf("pi_auto_%d", s.n), "object": "payment_intent", "status": "succeeded", "amount": amount,
		"amount_received": amount, "currency": f.Get("currency"), "metadata": inside(f, "metadata"), "livemode": false,
		"customer": f.Get("customer"), "payment_method": f.Get("payment_method")}
	if s.Decline != "" {
		o["status"], o["amount_received"] = "requires_payment_method", 0
		return o, Object{"type": "card_error", "code": "card_declined", "decline_code": s.Decline, "payment_intent": o,
			"message": "Your card was declined."}
	}
	s.Intents[o["id"].(string)] = o
	return o, nil
}

// Pay pays a session, as its customer does on Stripe's page, and returns the event of that.
func (s *Server) Pay(session string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.Sessions[session]
	intent := "pi_" + session
	o["status"], o["payment_status"], o["payment_intent"] = "complete", "paid", intent
	i := Object{"id": intent, "object": "payment_intent", "status": "succeeded", "amount": o["amount_total"],
		"amount_received": o["amount_total"], "currency": o["currency"], "metadata": o["metadata"]}
	if o["setup"] == "off_session" {
		o["customer"] = "cus_" + session
		i["setup_future_usage"] = "off_session"
		i["payment_method"] = Object{"id": "pm_" + session, "object": "payment_method", "type": "card",
			"card": Object{"brand": "visa", "last4": "4242"}}
	}
	s.Intents[intent] = i
	return s.event("checkout.session.completed", o)
}

// Event is one of Stripe's events about an object.
func (s *Server) Event(kind string, o Object) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.event(kind, o)
}

func (s *Server) event(kind string, o Object) Object {
	s.n++
	return Object{"id": fmt.Sprintf("evt_%d", s.n), "object": "event", "api_version": stripe.APIVersion,
		"created": time.Now().Unix(), "livemode": false, "pending_webhooks": 1, "type": kind, "data": Object{"object": o}}
}

// Sign writes an event as Stripe sends it at a time: its body and the header Stripe-Signature.
func Sign(event Object, secret string, at time.Time) (body []byte, signature string) {
	body, _ = json.Marshal(event)
	signed := stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: body, Secret: secret, Timestamp: at})
	return body, signed.Header
}
