package command

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func statementCommand() *cobra.Command {
	var to target
	var out output
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "statement ACCOUNT MONTH",
		Short: "Shows what an account's money did in a month",
		Long: `Shows an account's statement of a month of UTC: the opening balance, each top-up,
refund and correction, what use has taken by day, key and route, and the closing
balance, which is the next month's opening one. Amounts are in credits with six
decimals, which are microcents, and add up exactly.

Whether it is what the ledger says, anybody can check: a checkpoint that was kept
elsewhere (` + "`ledger checkpoint`" + `) covers the month's entries, and
` + "`ledger verify --checkpoint FILE`" + ` finds what was changed since.

A month that still runs is shown as of now. With --csv the lines add up from the
opening balance to the closing one, in microcents.`,
		Example: "  fareway gateway statement acme 2026-11\n" +
			"  fareway gateway statement acme 2026-11 --csv > acme-2026-11.csv",
		Args: exactly("ACCOUNT", "MONTH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s admin.Statement
			path := "/fareway/accounts/" + url.PathEscape(args[0]) + "/statement?month=" + url.QueryEscape(args[1])
			if err := to.read(cmd, func(c *admin.Client) error {
				s = admin.Statement{}
				return c.Call(cmd.Context(), http.MethodGet, path, nil, &s)
			}); err != nil {
				return err
			}
			if asCSV {
				return s.WriteCSV(cmd.OutOrStdout())
			}
			return out.print(cmd, s, func(w io.Writer) { printStatement(w, &s) })
		},
	}
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print CSV, with amounts in microcents")
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		return notBoth(cmd, "csv", "json", "each is a form of the output")
	})
	to.addFlags(cmd)
	to.addFromFlag(cmd)
	out.addFlag(cmd)
	return cmd
}

func printStatement(w io.Writer, s *admin.Statement) {
	last := s.Until.AddDate(0, 0, -1)
	fmt.Fprintf(w, "Account %s (%s), %s to %s, days of UTC.\n", s.Account, s.AccountID, s.From.Format("2006-01-02"),
		last.Format("2006-01-02"))
	if !s.Over {
		fmt.Fprintln(w, "The month still runs: this is how it is now.")
	}
	fmt.Fprintln(w)
	table(w, func(w io.Writer) {
		line := func(name string, microcents int64) { fmt.Fprintf(w, "%s\t%20s\n", name, human.Exact(microcents)) }
		line("opening balance", s.Opening)
		for _, kind := range []ledger.EntryKind{ledger.TopUp, ledger.Allotment, ledger.Refund, ledger.Adjustment} {
			if n, moved := s.Moved[string(kind)]; moved {
				line(kind.Name(), n)
			}
		}
		line("charges", -s.Charges)
		line("closing balance", s.Closing)
	})
	if s.Elsewhere != 0 {
		fmt.Fprintf(w, "\nOf the charges, %s are in no sum below: receipts that came in another month than\n"+
			"their requests, and requests that were pruned before there were sums of days.\n", human.Exact(s.Elsewhere))
	}
	if s.Rough {
		fmt.Fprintln(w, "\nRequests were settled while this was read, which are in one sum and not in another.")
	}
	if len(s.Movements) > 0 {
		fmt.Fprintln(w)
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "TIME\tWHAT\tCREDITS\tREFERENCE\tREASON")
			for i := range s.Movements {
				e := &s.Movements[i]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", human.Moment(e.Created), e.Kind.Name(), human.Exact(e.Microcents),
					human.Printable(orDash(strings.TrimSpace(e.Reference+" "+e.Request))), human.Printable(orDash(e.Reason)))
			}
		})
	}
	for _, part := range []struct {
		title string
		rows  []admin.Usage
		name  func(u *admin.Usage) string
	}{
		{"DAY", s.Days, func(u *admin.Usage) string { return u.Day }},
		{"KEY", s.Keys, func(u *admin.Usage) string { return u.Key }},
		{"ROUTE", s.Routes, func(u *admin.Usage) string { return u.Route }},
	} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		table(w, func(w io.Writer) {
			fmt.Fprintf(w, "%s\tREQUESTS\tCHARGED\n", part.title)
			for i := range part.rows {
				u := &part.rows[i]
				fmt.Fprintf(w, "%s\t%s\t%s\n", human.Printable(orDash(part.name(u))), human.Thousands(u.Requests),
					human.Exact(u.Microcents))
			}
		})
	}
	fmt.Fprintln(w)
	switch c := s.Checkpoint; {
	case s.Last == 0:
		fmt.Fprintln(w, "Nothing moved in it.")
	case c == nil:
		fmt.Fprintf(w, "Entries %d to %d of the account; no checkpoint covers them all yet.\n", s.First, s.Last)
	default:
		fmt.Fprintf(w, "Entries %d to %d of the account, the last with the hash %s, which\ncheckpoint %d of %s "+
			"covers (%s).\n",
			s.First, s.Last, s.Head, c.N, human.Moment(c.Created), c.Hash)
	}
}
