package admin

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// strangersEvery is how often the log tells of requests without the right token, from any one address.
	strangersEvery = 10 * time.Second
	// maxStrangers is how many addresses are told apart meanwhile; the others are counted together.
	maxStrangers = 64
)

// strangers count the requests that are refused for their token, and tell the log: of the first from an address at
// once, and of more from there once in a while, with their number. Somebody may be trying tokens.
type strangers struct {
	log func() *slog.Logger

	mu    sync.Mutex
	count map[string]int // by address, since it was last told of
}

func newStrangers(log func() *slog.Logger) *strangers {
	return &strangers{log: log, count: make(map[string]int)}
}

// refused notes one of them.
func (s *strangers) refused(r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.count[address]; !known && len(s.count) >= maxStrangers {
		address = "others"
	}
	if _, known := s.count[address]; known {
		s.count[address]++
		return
	}
	s.tell(address, 1)
}

// tell is called with the lock held. It tells again when there are more.
func (s *strangers) tell(address string, count int) {
	s.log().Warn("admin requests are refused: their token is missing or wrong", "client_ip", address, "count", count)
	s.count[address] = 0
	time.AfterFunc(strangersEvery, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if more := s.count[address]; more > 0 {
			s.tell(address, more)
			return
		}
		delete(s.count, address)
	})
}
