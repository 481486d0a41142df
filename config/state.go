package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What the gateway remembers, and where: the ledger in a store, the rate limits in a limiter.

// SQLite and Memory are the kinds of stores and limiters that there are.
const (
	SQLite = "sqlite"
	Memory = "memory"
)

const (
	storeExample   = "store \"" + SQLite + "\" {\n  path = \"fareway.db\"\n}"
	limiterExample = "limiter \"" + Memory + "\" {}"
)

// DefaultStore is where the ledger is unless the file says otherwise.
func DefaultStore() Store { return Store{Kind: SQLite, Path: "fareway.db", Durability: DurablePower} }

// File is the path of the database in a data folder.
func (s Store) File(data string) string { return filepath.Join(data, s.Path) }

func (l *loader) store(file *section) Store {
	st := DefaultStore()
	for _, block := range file.blocks["store"] {
		if !l.kind(block, storeExample, st.Kind) {
			continue
		}
		s := l.open(block, &storeGrammar)
		var path string
		v, ok := s.text("path", &path)
		switch {
		case !ok:
		case strings.HasSuffix(path, "/"):
			s.refuse(v, "must name a file, not a folder")
		case filepath.IsAbs(path):
			s.refuse(v, "must be relative to the data folder, such as \"fareway.db\"")
		default:
			st.Path = path
		}
		durability := string(st.Durability)
		s.oneOf("durability", &durability)
		st.Durability = Durability(durability)
	}
	return st
}

func (l *loader) limiter(file *section) Limiter {
	lim := Limiter{Kind: Memory}
	for _, block := range file.blocks["limiter"] {
		if !l.kind(block, limiterExample, Memory, RedisKind) {
			continue
		}
		if block.Labels[0] == Memory {
			l.open(block, &limiterGrammar)
			continue
		}
		s := l.open(block, &redisLimiterGrammar)
		lim = Limiter{Kind: RedisKind, Redis: s.redis(), Nodes: 1}
		s.integer("nodes", &lim.Nodes)
	}
	return lim
}

// kind checks the label of a block that could be of several kinds. The body of another kind stays unread and
// unshown: its attributes are not this one's, and what they hold may be a password.
func (l *loader) kind(block *hclsyntax.Block, example string, known ...string) bool {
	if slices.Contains(known, block.Labels[0]) {
		return true
	}
	quoted := make([]string, len(known))
	for i, k := range known {
		quoted[i] = strconv.Quote(k)
	}
	l.fail(block.LabelRanges[0], "Unknown kind of "+block.Type,
		fmt.Sprintf("This fareway knows only %s. Write it as:\n%s", strings.Join(quoted, " and "), example))
	return false
}
