package verify

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:generate go run ./gen

//go:embed register.tsv
var registerText string

// Kind says who can see whether a clause holds.
type Kind string

const (
	// API clauses can be seen by any client of a deployment.
	API Kind = "api"
	// Ops clauses take a gateway whose upstream, accounts and configuration are the run's own.
	Ops Kind = "ops"
)

// Status is what a run says about a clause (VER-05).
type Status string

const (
	Pass     Status = "PASS"     // it held on the build that was tested
	Fail     Status = "FAIL"     // it was tested and did not hold
	Excluded Status = "EXCLUDED" // intentionally not offered (VER-06 to VER-10)
	Pending  Status = "Pending"  // not tested, for the reason in the detail
)

// Clause is one statement of the contract.
type Clause struct {
	ID   string // such as STOP-07
	Kind Kind
	Idle Status // when nothing was run: Pending or EXCLUDED
	Text string
}

// Area is the clause's part of the contract: the letters before the dash.
func (c Clause) Area() string {
	area, _, _ := strings.Cut(c.ID, "-")
	return area
}

// register is every clause that can be tested, in the contract's order.
var register = parseRegister(registerText)

// parseRegister reads the register. The file is part of the binary, so a mistake in it is a programming error.
func parseRegister(text string) []Clause {
	var all []Clause
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i == 0 {
			continue // the names of the columns
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			panic(fmt.Sprintf("verify: line %d of register.tsv has %d columns instead of 4", i+1, len(f)))
		}
		all = append(all, Clause{ID: f[0], Kind: Kind(f[1]), Idle: Status(f[2]), Text: f[3]})
	}
	return all
}

// clause is that of an id, which must be in the register.
func clause(id string) Clause {
	for _, c := range register {
		if c.ID == id {
			return c
		}
	}
	panic("verify: no such clause: " + id)
}
