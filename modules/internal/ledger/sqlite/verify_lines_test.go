package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that replaced another shares its cap. Cut out of their line by hand, with every sum adjusted, it would have
// one of its own.
func TestVerifySeesLinesThatNobodyMade(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	for name, c := range map[string]struct {
		sql     []string
		problem string
	}{
		"cut out": {[]string{
			`UPDATE keys SET spent = spent + (SELECT line_spent FROM balances WHERE line = 1), spent_before = 0 WHERE n = 1`,
			`UPDATE balances SET line = NULL, line_spent = 0 WHERE line = 1`,
			`UPDATE keys SET root = n, spend_cap = 900000000, spent_before = 0,
				spent = (SELECT sum(charge) FROM requests WHERE key = 2) WHERE n = 2`,
			`UPDATE keys SET spent = spent - (SELECT spent FROM keys WHERE n = 2) WHERE n = 1`,
		}, `: it does not share the cap of `},
		"put in": {[]string{`UPDATE keys SET root = 5, spend_cap = 0 WHERE n = 6`}, `: it shares the cap of another key`},
	} {
		p := v.problem(func() error {
			for _, sql := range c.sql {
				if err := run(v.conn, sql, nil); err != nil {
					return err
				}
			}
			return nil
		})
		require.Contains(t, p, c.problem, name)
	}
}
