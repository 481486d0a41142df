package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What the gateway remembers, and where: the ledger in a store, the rate limits in a limiter.

// SQLite and Postgres are the kinds of stores, and Memory is that of limiters.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
	Memory   = "memory"
)

const (
	storeExample    = "store \"" + SQLite + "\" {\n  path = \"fareway.db\"\n}"
	postgresExample = "store \"" + Postgres + "\" {\n  dsn = env(\"DATABASE_URL\")\n}"
	limiterExample  = "limiter \"" + Memory + "\" {}"
)

// besidePostgres is what the data folder's own files are called after where the ledger is not among them.
const besidePostgres = "fareway"

// DefaultStore is where the ledger is unless the file says otherwise.
func DefaultStore() Store { return Store{Kind: SQLite, Path: "fareway.db", Durability: DurablePower} }

// File is the path of the database in a data folder. What else survives a restart lies beside it, under its name:
// where the database is a server's, File is that name alone, and there is no such file.
func (s Store) File(data string) string {
	if s.Kind == Postgres {
		return filepath.Join(data, besidePostgres)
	}
	return filepath.Join(data, s.Path)
}

// MarshalJSON prints the store without its dsn, which holds a password.
func (s Store) MarshalJSON() ([]byte, error) {
	dsn := ""
	if s.DSN != "" {
		dsn = hidden
	}
	return json.Marshal(struct {
		Kind       string     `json:"kind"`
		Path       string     `json:"path,omitempty"`
		Durability Durability `json:"durability,omitempty"`
		DSN        string     `json:"dsn,omitempty"`
		Standby    Standby    `json:"standby,omitempty"`
	}{s.Kind, s.Path, s.Durability, dsn, s.Standby})
}

// Format prints the store without its dsn under every verb, as Provider's does.
func (s Store) Format(f fmt.State, _ rune) {
	text, err := s.MarshalJSON()
	if err != nil {
		text = []byte(hidden)
	}
	// An error of the writer reaches whoever gave the writer to fmt.
	_, _ = io.WriteString(f, "store "+string(text))
}

// LogValue keeps the dsn out of logs.
func (s Store) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(s)) }

func (l *loader) store(file *section) Store {
	st := DefaultStore()
	for _, block := range file.blocks["store"] {
		switch {
		case block.Labels[0] == Postgres:
			st = l.postgres(block)
		case l.kind(block, storeExample+"\nor:\n"+postgresExample, SQLite, Postgres):
			st = l.sqlite(block)
		}
	}
	return st
}

func (l *loader) sqlite(block *hclsyntax.Block) Store {
	st := DefaultStore()
	s := l.open(block, &sqliteGrammar)
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
	return st
}

// dsnOfPostgres is how a dsn of PostgreSQL begins: as a URI, or with the first of its keywords (libpq, "Connection
// Strings").
var dsnOfPostgres = regexp.MustCompile(`^(postgres(ql)?://|\s*[a-z_]+\s*=)`)

func (l *loader) postgres(block *hclsyntax.Block) Store {
	s := l.open(block, &postgresGrammar)
	s.public = false
	st := Store{Kind: Postgres, Standby: StandbyAny}
	if v, ok := s.text("dsn", &st.DSN); ok && !dsnOfPostgres.MatchString(st.DSN) {
		s.refuse(v, "must look like postgres://user:password@host/database, or like host=HOST dbname=DATABASE")
	}
	standby := string(st.Standby)
	s.oneOf("standby", &standby)
	st.Standby = Standby(standby)
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
