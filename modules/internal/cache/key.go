package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"

	"github.com/fareway/fareway/plugins/llm"
)

// Keys makes keys of requests. They say nothing of a request to anybody who has not the secret.
type Keys struct{ secret []byte }

// NewKeys makes keys with a secret.
func NewKeys(secret []byte) Keys { return Keys{secret} }

// Scope is for whom a reply may be played again, beside the request itself.
type Scope struct {
	Account, Family, Profile string // the profile is the effective one (PROF-21)
	// Configuration is what identifies that one, and Plan what the account's plan demands of routes.
	Configuration, Plan string
	Structured          bool // structured outputs are on
}

// Key is over the scope and all of the request that a route would get. The model's name is not in it.
func (k Keys) Key(s Scope, req *llm.Request) Key {
	hash := hmac.New(sha256.New, k.secret)
	(&writer{hash: hash}).request(s, req)
	var key Key
	hash.Sum(key[:0])
	return key
}

// writer feeds a hash so that no two lists of values are the same bytes: none is the beginning of another.
type writer struct {
	hash io.Writer
	b    []byte
}

func (w *writer) request(s Scope, req *llm.Request) {
	w.texts(s.Account, s.Family, s.Profile, s.Configuration, s.Plan)
	w.writeBool(s.Structured)
	w.number(int64(len(req.Messages)))
	for i := range req.Messages {
		w.message(&req.Messages[i])
	}
	w.number(int64(len(req.Tools)))
	for i := range req.Tools {
		t := &req.Tools[i]
		w.texts(t.Name, t.Description, string(t.Schema))
		w.writeBool(t.Strict)
	}
	w.texts(string(req.ToolChoice.Mode), req.ToolChoice.Name)
	w.number(req.MaxTokens)
	if w.writeBool(req.Temperature != nil) {
		w.number(int64(math.Float64bits(*req.Temperature + 0))) // -0 is 0
	}
	w.number(int64(len(req.Stop)))
	w.texts(req.Stop...)
	if f := req.Format; w.writeBool(f != nil) {
		w.texts(string(f.Kind), f.Name, f.Description, string(f.Schema))
		if w.writeBool(f.Strict != nil) {
			w.writeBool(*f.Strict)
		}
	}
}

func (w *writer) message(m *llm.Message) {
	w.texts(string(m.Role), m.CallID)
	w.writeBool(m.IsError)
	w.number(int64(len(m.Parts)))
	for i := range m.Parts {
		p := &m.Parts[i]
		w.text(p.Text)
		if w.writeBool(p.Call != nil) {
			w.texts(p.Call.ID, p.Call.Name)
			w.text(p.Call.Arguments)
		}
	}
}

// A hash takes everything.

func (w *writer) number(n int64) {
	w.b = binary.BigEndian.AppendUint64(w.b[:0], uint64(n))
	_, _ = w.hash.Write(w.b)
}

// writeBool returns what it was given, so that what is there only sometimes is preceded by whether it is.
func (w *writer) writeBool(t bool) bool {
	w.b, _ = binary.Append(w.b[:0], binary.BigEndian, t)
	_, _ = w.hash.Write(w.b)
	return t
}

func (w *writer) texts(all ...string) {
	for _, s := range all {
		w.number(int64(len(s)))
		_, _ = w.hash.Write([]byte(s))
	}
}

func (w *writer) text(s llm.String) {
	b := s.AppendTo(nil)
	w.number(int64(len(b)))
	_, _ = w.hash.Write(b)
}
