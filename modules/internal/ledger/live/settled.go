package live

// maxSettled is how many ids of settled requests are remembered.
const maxSettled = 1 << 13

// settledIDs tells of nearly every new request, without asking the store, that no settled one has its id: ids begin
// with the time, and those of the last settled requests are remembered.
type settledIDs struct {
	max   int
	floor string // no id above it is settled but those in ids
	ids   map[string]struct{}
	order []string // a ring of ids, in the order of their settlement
	next  int
}

func (s *settledIDs) reset(highest string) {
	*s = settledIDs{max: maxSettled, floor: highest, ids: make(map[string]struct{})}
}

func (s *settledIDs) add(id string) {
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

// tell reports whether a request is settled; sure is false when the store has to be asked.
func (s *settledIDs) tell(id string) (settled, sure bool) {
	_, known := s.ids[id]
	return known, known || id > s.floor
}
