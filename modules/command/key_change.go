package command

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

// keyFlags are the flags that bound a key.
type keyFlags struct{ expires, spendCap string }

func (f *keyFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.expires, "expires", "",
		"when it ends, a `TIME`: 90d from now, a date, RFC 3339, or \"never\"")
	cmd.Flags().StringVar(&f.spendCap, "spend-cap", "",
		"at most these `CREDITS` in a period of the account, or \"none\"; shared with keys that it was rotated from")
}

// read is the flags as the admin API has them; what was not given stays nil.
func (f *keyFlags) read(cmd *cobra.Command) (l admin.KeyLimits, err error) {
	if cmd.Flags().Changed("expires") {
		text := admin.Never
		if f.expires != admin.Never {
			t, err := human.ParseFuture(f.expires, time.Now())
			if err != nil {
				return l, fmt.Errorf("--expires %w", err)
			}
			text = t.Format(time.RFC3339Nano)
		}
		l.Expires = &text
	}
	if cmd.Flags().Changed("spend-cap") {
		var n int64
		if f.spendCap != "none" {
			if n, err = strconv.ParseInt(f.spendCap, 10, 64); err != nil || n < 1 {
				return l, fmt.Errorf("--spend-cap %q: write whole credits, as in 500 for five US dollars, or \"none\"", f.spendCap)
			}
		}
		l.SpendCapCredits = &n
	}
	return l, nil
}

func keySetCommand() *cobra.Command {
	var (
		to     target
		out    output
		limits keyFlags
	)
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Changes when a key expires and what it may spend",
		Example: "  fareway gateway key set key_0123456789abcdef01234567 --expires 30d --spend-cap 500\n  fareway gateway " +
			"key set key_0123456789abcdef01234567 --expires never --spend-cap none",
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := limits.read(cmd)
			if err != nil {
				return err
			}
			if in == (admin.KeyLimits{}) {
				return fmt.Errorf("nothing is to change: give --expires or --spend-cap (`%s --help`)", cmd.CommandPath())
			}
			var v admin.Key
			if err := to.call(cmd, "PATCH", keyPath(args[0]), admin.KeyChange{KeyLimits: in}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printKey(w, v) })
		},
	}
	limits.addFlags(cmd)
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// printKey writes a key's limits out, also where it has none.
func printKey(w io.Writer, v admin.Key) {
	expires := admin.Never
	if v.Expires != nil {
		expires = human.Moment(*v.Expires)
	}
	spendCap := "none"
	if v.SpendCapMicrocents > 0 {
		spendCap = human.Exact(v.SpendCapMicrocents) + " credits"
	}
	fmt.Fprintf(w, "Key %s (%s) of account %s is %s: expires %s, spend cap %s, spent %s credits.\n",
		v.Name, v.ID, v.Account, v.State, expires, spendCap, human.Exact(v.SpentMicrocents))
}

func keyRenameCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "rename ID NEW",
		Short:   "Renames a key; its text stays",
		Example: "  fareway gateway key rename key_0123456789abcdef01234567 build-server",
		Args:    exactly("ID", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Key
			if err := to.call(cmd, "PATCH", keyPath(args[0]), admin.KeyChange{Name: &args[1]}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Key %s of account %s is now %s.\n", v.ID, v.Account,
					v.Name)
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func keyRotateCommand() *cobra.Command {
	var (
		to      target
		out     output
		overlap string
	)
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Replaces a key by a new one and shows that, this once",
		Long: `Replaces a key by a new one and shows that, this once. The new key takes over the
name, the expiry, and the spend cap with what is spent of it. The old one goes on
for the overlap, under its name with "~1" behind it, and then ends by itself.`,
		Example: "  fareway gateway key rotate key_0123456789abcdef01234567 --overlap 24h\n  fareway gateway key rotate " +
			"key_0123456789abcdef01234567 --overlap 0s --json | jq -r .key",
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := parseOverlap(overlap)
			if err != nil {
				return err
			}
			var v admin.Rotated
			if err := to.call(cmd, "POST", keyPath(args[0])+"/rotate", admin.Rotation{OverlapSeconds: seconds}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printRotated(w, v) })
		},
	}
	cmd.Flags().StringVar(&overlap, "overlap", "24h",
		"how long the old key goes on, a `DURATION` as in 24h or 7d; 0s ends it now")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// parseOverlap reads a length of time that may be 0, in seconds.
func parseOverlap(text string) (int64, error) {
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return 0, nil
	}
	d, err := human.ParseSpan(text)
	if err != nil {
		return 0, fmt.Errorf("--overlap %w", err)
	}
	return int64((d + time.Second - 1) / time.Second), nil
}

func printRotated(w io.Writer, v admin.Rotated) {
	fmt.Fprintf(w, "%s\n\nThis is key %s (%s) of account %s. It is not shown again.\n", v.Key.Key, v.Name, v.ID, v.Account)
	if v.Old.State == admin.KeyActive && v.Old.Expires != nil {
		fmt.Fprintf(w, "The old key is now %s (...%s) and ends %s.\n", v.Old.Name, v.Old.Last4, human.Moment(*v.Old.Expires))
	} else {
		fmt.Fprintf(w, "The old key is now %s (...%s) and has ended.\n", v.Old.Name, v.Old.Last4)
	}
}
