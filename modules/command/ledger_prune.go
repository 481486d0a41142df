package command

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

// Prune is the result of `gateway ledger prune`: what went, or what would go.
type pruneView struct {
	Before   time.Time `json:"before"`
	Requests int64     `json:"requests"`
	Pruned   bool      `json:"pruned"` // false without --yes: nothing was changed
	// What became of the database's file, with --yes.
	FileBefore  int64 `json:"file_before_bytes,omitempty"`
	File        int64 `json:"file_bytes,omitempty"`
	FreeAtStart bool  `json:"free_at_start,omitempty"`
}

func ledgerPruneCommand() *cobra.Command {
	var (
		to     target
		out    output
		before string
		yes    bool
	)
	cmd := &cobra.Command{
		Use:   "prune --before TIME",
		Short: "Removes the detail of old requests; movements of money stay",
		Long: `Removes the detail of requests that were settled before a time: which routes were
tried, tokens, prices, status. It cannot be brought back. ` + "`usage`" + ` still has their sums
by day, key and route, and ` + "`usage ID`" + ` of one of them says what it was charged.

What stays: every movement of money with its hash chain, balances, checkpoints,
the audit trail, and requests that still wait for a receipt. ` + "`ledger verify`" + ` works
as before; it can no longer recompute the charges of those requests from usage.

The room goes back to the file system, in small steps beside the requests that run. The
file of an older fareway is written anew once, at the next start, where a quarter of it
is free: that takes some seconds for a gigabyte, and as much room on the disk as the
rest of the file, twice. Without that room it stays as it is.

Without --yes it only says how many requests it would be.`,
		Example: "  fareway gateway ledger prune --before 400d\n  fareway gateway ledger prune --before 2026-01-01 --yes",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := human.ParsePast(before, time.Now())
			if err != nil {
				return fmt.Errorf("--before %w", err)
			}
			v := pruneView{Before: t, Pruned: yes}
			if yes {
				var done admin.Pruned
				err = to.call(cmd, "POST", "/fareway/ledger/prune", admin.Pruning{Before: t}, &done)
				v.Requests, v.FileBefore, v.File, v.FreeAtStart = done.Requests, done.FileBefore, done.File, done.FreeAtStart
			} else {
				v.Requests, err = to.prunable(cmd, t)
			}
			if err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printPruned(w, v) })
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "a `TIME`: a date, RFC 3339, or an age, as in 400d")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	needs(cmd, "before")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// prunable is how many requests were settled before then and wait for nothing.
func (t *target) prunable(cmd *cobra.Command, before time.Time) (n int64, err error) {
	if before.After(time.Now()) {
		return 0, fmt.Errorf("--before %s: name a time in the past", before.Format(time.RFC3339))
	}
	c, err := t.client()
	if err != nil {
		return 0, err
	}
	query := url.Values{"until": {before.Format(time.RFC3339Nano)}}
	err = admin.ReadList(cmd.Context(), c, "/fareway/usage", query, func(u admin.Usage) error {
		n += u.Requests - u.Pending - u.Pruned
		return nil
	})
	return n, err
}

func printPruned(w io.Writer, v pruneView) {
	if v.Pruned {
		fmt.Fprintf(w, "Removed the detail of %s that were settled before %s. Movements of money stay.\n",
			human.Count(v.Requests, "request"), human.Moment(v.Before))
		switch {
		case v.FreeAtStart:
			fmt.Fprintf(w, "Much of the database's file (%s) is free for new requests. It is of an older fareway, so that\n"+
				"only the next start of the gateway can give that to the file system.\n", memory(v.File))
		case v.File < v.FileBefore:
			fmt.Fprintf(w, "The database's file had %s and has %s now.\n", memory(v.FileBefore), memory(v.File))
		}
		return
	}
	fmt.Fprintf(w, `The detail (routes, tokens, prices, status) of %s that were settled before
%s would be removed for good. Movements of money, balances, checkpoints, the
audit trail and requests that wait for a receipt stay.
Nothing was changed: add --yes to do it.
`, human.Count(v.Requests, "request"), human.Moment(v.Before))
}
