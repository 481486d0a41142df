package book

// maxSettled is how many ids of settled requests are remembered at most, and half of them at least.
const maxSettled = 1 << 13

// SettledIDs tell of nearly every new request, without a look at what is on record, that no settled one has its id: ids
// begin with the time, and those of the last settled requests are remembered. To know too many does no harm.
type SettledIDs struct {
	max        int
	floor      string // no id above it is settled but those that are remembered
	young, old idSet
}

type idSet struct {
	ids     map[string]struct{}
	highest string
}

// Reset forgets all. highest is the largest id of a settled request, "" without one.
func (s *SettledIDs) Reset(highest string) {
	*s = SettledIDs{max: maxSettled, floor: highest, young: idSet{ids: map[string]struct{}{}},
		old: idSet{ids: map[string]struct{}{}}}
}

// Add remembers the id of a request that is settled.
func (s *SettledIDs) Add(id string) {
	if id <= s.floor {
		return
	}
	s.young.ids[id] = struct{}{}
	s.young.highest = max(s.young.highest, id)
	if len(s.young.ids) < s.max/2 {
		return
	}
	s.floor = max(s.floor, s.old.highest)
	clear(s.old.ids)
	s.young, s.old = idSet{ids: s.old.ids}, s.young
}

// Find reports whether a request is settled; sure is false when what is on record has to be looked at.
func (s *SettledIDs) Find(id string) (settled, sure bool) {
	if _, settled = s.young.ids[id]; !settled {
		_, settled = s.old.ids[id]
	}
	return settled, settled || id > s.floor
}

// IsNew reports that no request with this id can be settled; false means that what is on record has to be looked at.
func (s *SettledIDs) IsNew(id string) bool {
	settled, sure := s.Find(id)
	return sure && !settled
}
