package command

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

func keyCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "key",
		Short: "Makes, lists, changes, rotates and revokes API keys",
		Long: "Makes, lists, changes, rotates and revokes API keys. A key is shown once, when it\nis made: the gateway " +
			"keeps only a hash of it.",
	})
	cmd.AddCommand(keyCreateCommand(), keyListCommand(), keySetCommand(), keyRenameCommand(), keyRotateCommand(),
		keyRevokeCommand())
	return cmd
}

func keyCreateCommand() *cobra.Command {
	var (
		to     target
		out    output
		in     admin.NewKey
		limits keyFlags
	)
	cmd := &cobra.Command{
		Use:   "create --account NAME --name NAME",
		Short: "Makes a key and shows it, this once",
		Example: "  fareway gateway key create --account ann --name laptop\n  fareway gateway key create --account ann " +
			"--name intern --expires 90d --spend-cap 500\n" +
			"  fareway gateway key create --account ann --name ci --json | jq -r .key",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if in.KeyLimits, err = limits.read(cmd); err != nil {
				return err
			}
			var v admin.Key
			if err := to.call(cmd, "POST", "/fareway/keys", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "%s\n\nThis is key %s (%s) of account %s. It is not shown again.\n", v.Key, v.Name, v.ID, v.Account)
				printKeyLimits(w, v)
			})
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `NAME` of the account that pays")
	cmd.Flags().StringVar(&in.Name, "name", "", "a `NAME` for the key, unique in its account")
	needs(cmd, "account", "name")
	limits.addFlags(cmd)
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// printKeyLimits says what bounds a key; nothing for one without bounds.
func printKeyLimits(w io.Writer, v admin.Key) {
	if v.Expires != nil {
		fmt.Fprintf(w, "It expires %s.\n", human.Moment(*v.Expires))
	}
	if v.SpendCapMicrocents > 0 {
		fmt.Fprintf(w, "It spends at most %s credits in a period of the account.\n", human.Exact(v.SpendCapMicrocents))
	}
}

func keyListCommand() *cobra.Command {
	var (
		to      target
		out     output
		account string
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Lists keys, of one account or of all",
		Example: "  fareway gateway key list --account ann",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			query := url.Values{}
			if account != "" {
				query.Set("account", account)
			}
			if out.json {
				return copyArray(cmd.Context(), c, "/fareway/keys", query, cmd.OutOrStdout())
			}
			w := screen(cmd)
			now := time.Now()
			return printRows(w, gateway.Own("There are no keys: make one with `fareway gateway key create --account NAME "+
				"--name NAME`."),
				newListing(w, column{title: "ID"}, column{title: "ACCOUNT"}, column{title: "NAME"}, column{title: "KEY"},
					column{title: "STATE"},
					column{title: "CREATED"}, column{title: "SPENT", align: right}, column{title: "OF", align: right}),
				func(add func(...string) error) error {
					return admin.ReadList(cmd.Context(), c, "/fareway/keys", query, func(k admin.Key) error {
						return add(k.ID, k.Account, k.Name, "..."+k.Last4, stateOf(k, now), k.Created.Format(time.DateOnly),
							human.Exact(k.SpentMicrocents), spendCapOf(k))
					})
				})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only the keys of the account `NAME`")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// stateOf writes a key's state, and how long it has.
func stateOf(k admin.Key, now time.Time) string {
	if k.State != admin.KeyActive || k.Expires == nil {
		return string(k.State)
	}
	return "active, expires in " + human.Span(k.Expires.Sub(now))
}

func spendCapOf(k admin.Key) string {
	if k.SpendCapMicrocents == 0 {
		return "no cap"
	}
	return human.Exact(k.SpendCapMicrocents)
}

func keyRevokeCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revokes a key for good: its next request gets 401",
		Example: "  fareway gateway key revoke key_0123456789abcdef01234567",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Key
			if err := to.call(cmd, "DELETE", keyPath(args[0]), nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Key %s (...%s) of account %s is revoked.\n", v.Name, v.Last4, v.Account)
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func keyPath(id string) string { return "/fareway/keys/" + url.PathEscape(id) }
