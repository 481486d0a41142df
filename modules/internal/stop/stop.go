// Package stop finds stop sequences in the text of a reply while it arrives in pieces, and cuts the reply just before
// the first one (STOP-06, STOP-07). It is for the exchange, which runs every reply through it whether the upstream
// honours stop sequences or not.
//
// A Set is an Aho-Corasick automaton: a trie of the sequences, in which every node links to the longest
// proper suffix of its path that is in the trie too. The node that the automaton stands on after a piece of
// text is therefore exactly the longest end of the text that could still become a stop sequence, which is
// what has to be withheld (STOP-27, GAP-92), and a reply takes time linear in its length whatever the
// sequences are. The automaton works on bytes; because texts and sequences are valid UTF-8, a match or a
// withheld fragment never begins or ends inside a character (GAP-74).
package stop

// Set is a set of stop sequences. It does not change after New and may be shared. A nil Set is empty.
type Set struct {
	stops []string
	nodes []node
	// first holds the root's children by their byte, 0 for none: most of a reply is read at the root.
	first [256]int32
}

// root is the index of the automaton's start: nothing of the text could become a stop sequence.
const root = 0

// node is a prefix of at least one stop sequence. Links are indexes into Set.nodes; 0, which is the root
// and nobody's child or sibling, stands for none.
type node struct {
	child   int32 // first child
	sibling int32 // next child of the same parent
	fail    int32 // longest proper suffix of this prefix that is a node
	depth   int32 // length of the prefix in bytes
	stop    int32 // a sequence in Set.stops that begins with the prefix
	match   int32 // 1 + index of the longest sequence that the prefix ends with, 0 for none
	in      byte  // the prefix's last byte
}

// New makes a Set of the given sequences. Empty and repeated ones are ignored (STOP-14, STOP-15); it
// returns nil, the empty Set, when none is left. How many and how long they may be is for the caller to
// check: building takes time and memory linear in their total length.
func New(stops []string) *Set {
	size := 1
	for _, s := range stops {
		size += len(s)
	}
	if size == 1 {
		return nil
	}
	s := &Set{nodes: make([]node, 1, size)}
	for _, stop := range stops {
		s.insert(stop)
	}
	s.link()
	return s
}

// insert adds the path of one sequence to the trie.
func (s *Set) insert(stop string) {
	if stop == "" {
		return
	}
	at := int32(root)
	for i := range len(stop) {
		next := s.child(at, stop[i])
		if next == 0 {
			next = int32(len(s.nodes))
			s.nodes = append(s.nodes, node{
				sibling: s.nodes[at].child, depth: int32(i + 1), stop: int32(len(s.stops)), in: stop[i],
			})
			s.nodes[at].child = next
			if at == root {
				s.first[stop[i]] = next
			}
		}
		at = next
	}
	if s.nodes[at].match == 0 {
		s.stops = append(s.stops, stop)
		s.nodes[at].match = int32(len(s.stops))
	}
}

// link sets the suffix links, shorter prefixes first, and hands the matches down along them.
func (s *Set) link() {
	queue := make([]int32, 1, len(s.nodes))
	for head := 0; head < len(queue); head++ {
		parent := queue[head]
		for n := s.nodes[parent].child; n != 0; n = s.nodes[n].sibling {
			queue = append(queue, n)
			if parent == root {
				continue
			}
			at := &s.nodes[n]
			at.fail = s.step(s.nodes[parent].fail, at.in)
			// A sequence that ends here is longer than any that ends in a suffix, and the longest
			// counts (STOP-08).
			if at.match == 0 {
				at.match = s.nodes[at.fail].match
			}
		}
	}
}

// child finds the child of a node by its byte, 0 for none. A node has at most as many children as there
// are sequences.
func (s *Set) child(at int32, b byte) int32 {
	if at == root {
		return s.first[b]
	}
	n := s.nodes[at].child
	for n != 0 && s.nodes[n].in != b {
		n = s.nodes[n].sibling
	}
	return n
}

// step moves the automaton over one byte.
func (s *Set) step(at int32, b byte) int32 {
	for at != root {
		if n := s.child(at, b); n != 0 {
			return n
		}
		at = s.nodes[at].fail
	}
	return s.first[b]
}

// Matcher makes a Matcher for one reply.
func (s *Set) Matcher() Matcher { return Matcher{set: s} }
