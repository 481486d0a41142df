package reply

// Spoken is what has come of a text, without the text.
type Spoken struct {
	size int
	hash uint64
}

// Add adds a piece.
func (s *Spoken) Add(piece string) {
	for i := range len(piece) {
		s.hash = (s.hash ^ uint64(piece[i])) * 1099511628211 // FNV-1a
	}
	s.size += len(piece)
}

// Rest is what of a whole text has not come yet; false where what has come is not its beginning.
func (s *Spoken) Rest(whole string) (string, bool) {
	if len(whole) < s.size {
		return "", false
	}
	var begun Spoken
	if begun.Add(whole[:s.size]); begun != *s {
		return "", false
	}
	return whole[s.size:], true
}
