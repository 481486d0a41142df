package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// admin adds the paths by which another process drives the fake. They ask for no credentials: a fake
// listens on the loopback device only.
//
//	PUT  /_fake/script              replaces the script (Script)
//	POST /_fake/queue               adds one Reply to the queue
//	POST /_fake/gates/{name}        opens a gate
//	GET  /_fake/gates/{name}?n=1    answers when n requests wait at it
//	GET  /_fake/arrived/{n}         answers when n requests have come
//	GET  /_fake/records/{n}         answers with the n-th request's Record when it has ended
//	GET  /_fake/records             all Records, in the order of their ends
//	GET  /_fake/idle                answers when no request is being answered
func (s *Server) admin() {
	s.mux.HandleFunc("PUT /_fake/script", func(w http.ResponseWriter, r *http.Request) {
		receive(w, r, func(b []byte) error {
			script, err := ParseScript(b)
			if err == nil {
				s.SetScript(script)
			}
			return err
		})
	})
	s.mux.HandleFunc("POST /_fake/queue", func(w http.ResponseWriter, r *http.Request) {
		receive(w, r, func(b []byte) error {
			var one Reply
			if err := strict(b, &one); err != nil {
				return err
			}
			if err := one.check(); err != nil {
				return err
			}
			s.Enqueue(one)
			return nil
		})
	})
	s.mux.HandleFunc("POST /_fake/gates/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.Open(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("GET /_fake/gates/{name}", func(w http.ResponseWriter, r *http.Request) {
		n := 1
		if q := r.URL.Query().Get("n"); q != "" {
			var err error
			if n, err = strconv.Atoi(q); err != nil {
				http.Error(w, "n must be a number", http.StatusBadRequest)
				return
			}
		}
		if s.AtGate(r.Context(), r.PathValue("name"), n) == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	s.mux.HandleFunc("GET /_fake/arrived/{n}", numbered(func(w http.ResponseWriter, r *http.Request, n int64) {
		if s.Arrived(r.Context(), n) == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	s.mux.HandleFunc("GET /_fake/records/{n}", numbered(func(w http.ResponseWriter, r *http.Request, n int64) {
		if rec, err := s.Ended(r.Context(), n); err == nil {
			show(w, rec)
		}
	}))
	s.mux.HandleFunc("GET /_fake/records", func(w http.ResponseWriter, _ *http.Request) { show(w, s.Records()) })
	s.mux.HandleFunc("GET /_fake/idle", func(w http.ResponseWriter, r *http.Request) {
		if s.Idle(r.Context()) == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

// receive answers an admin request that brings data.
func receive(w http.ResponseWriter, r *http.Request, take func([]byte) error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err == nil {
		err = take(b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// numbered reads the {n} of a path.
func numbered(f func(http.ResponseWriter, *http.Request, int64)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
		if err != nil || n < 1 {
			http.Error(w, "the path ends in a request's number, from 1", http.StatusBadRequest)
			return
		}
		f(w, r, n)
	}
}

func show(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader left
}
