package config

import (
	"crypto/sha256"
	"encoding/binary"
)

// shadow reads which route a share of a profile's requests is compared with.
func (s *section) shadow(sh *Shadow, routes []Route) {
	for _, block := range s.blocks["shadow"] {
		in := s.inner(block, &shadowGrammar)
		in.share("share", &sh.Share)
		v, ok := in.text("route", &sh.Route)
		if !ok {
			continue
		}
		names := make([]string, len(routes))
		for i := range routes {
			names[i] = routes[i].Name
		}
		if in.choose(v, sh.Route, names) && len(names) == 1 {
			s.warn(block.DefRange(), "Nothing to compare with", "The route of the shadow is the only one: whatever is "+
				"answered is answered by it.")
		}
	}
}

// Takes reports whether a request is of the share: always the same of the same id.
func (s *Shadow) Takes(request string) bool {
	if s.Share <= 0 {
		return false
	}
	hash := sha256.Sum256([]byte("fareway shadow " + request))
	const bits = 53 // which a float64 has
	return float64(binary.BigEndian.Uint64(hash[:])>>(64-bits)) < s.Share*(1<<bits)
}
