package book

// maxSettled is how many ids of settled requests are remembered.
const maxSettled = 1 << 13

// SettledIDs tell of nearly every new request, without a look at what is on record, that no settled one has its id: ids
// begin with the time, and those of the last settled requests are remembered. To know too many does no harm.
type SettledIDs struct {
	max   int
	floor string // no id above it is settled but those in ids
	ids   map[string]struct{}
	order []string // a ring of ids, in the order of their settlement
	next  int
}

// Reset forgets all. highest is the largest id of a settled request, "" without one.
func (s *SettledIDs) Reset(highest string) {
	*s = SettledIDs{max: maxSettled, floor: highest, ids: make(map[string]struct{})}
}

// Add remembers the id of a request that is settled.
func (s *SettledIDs) Add(id string) {
	if id <= s.floor {
		return
	}
	if _, ok := s.ids[id]; ok {
		return
	}
	s.ids[id] = struct{}{}
	if len(s.order) < s.max {
		s.order = append(s.order, id)
		return
	}
	gone := s.order[s.next]
	delete(s.ids, gone)
	s.floor = max(s.floor, gone)
	s.order[s.next] = id
	s.next = (s.next + 1) % s.max
}

// Find reports whether a request is settled; sure is false when what is on record has to be looked at.
func (s *SettledIDs) Find(id string) (settled, sure bool) {
	_, known := s.ids[id]
	return known, known || id > s.floor
}

// IsNew reports that no request with this id can be settled; false means that what is on record has to be looked at.
func (s *SettledIDs) IsNew(id string) bool {
	settled, sure := s.Find(id)
	return sure && !settled
}
