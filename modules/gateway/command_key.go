package gateway

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

func keyCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "key",
		Short: "Makes, lists and revokes API keys",
		Long:  "Makes, lists and revokes API keys. A key is shown once, when it is made: the\ngateway keeps only a hash of it.",
	})
	cmd.AddCommand(keyCreateCommand(), keyListCommand(), keyRevokeCommand())
	return cmd
}

func keyCreateCommand() *cobra.Command {
	var (
		to  target
		out output
		in  newKey
	)
	cmd := &cobra.Command{
		Use:     "create --account NAME --name NAME",
		Short:   "Makes a key and shows it, this once",
		Example: "  fareway gateway key create --account ann --name laptop\n  fareway gateway key create --account ann --name ci --json | jq -r .key",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v keyView
			if err := to.call(cmd, "POST", "/fareway/keys", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "%s\n\nThis is key %s (%s) of account %s. It is not shown again.\n", v.Key, v.Name, v.ID, v.Account)
			})
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `NAME` of the account that pays")
	cmd.Flags().StringVar(&in.Name, "name", "", "a `NAME` for the key, unique in its account")
	must(cmd.MarkFlagRequired("account"))
	must(cmd.MarkFlagRequired("name"))
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
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
			path := "/fareway/keys"
			if account != "" {
				path += "?account=" + url.QueryEscape(account)
			}
			var v []keyView
			if err := to.call(cmd, "GET", path, nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				if len(v) == 0 {
					fmt.Fprintln(w, "There are no keys: make one with `fareway gateway key create --account NAME --name NAME`.")
					return
				}
				table(w, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tACCOUNT\tNAME\tKEY\tSTATE\tCREATED")
					for _, k := range v {
						fmt.Fprintf(w, "%s\t%s\t%s\t...%s\t%s\t%s\n", k.ID, k.Account, k.Name, k.Last4, keyState(k), k.Created.Format(time.DateOnly))
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only the keys of the account `NAME`")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
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
			var v keyView
			if err := to.call(cmd, "DELETE", "/fareway/keys/"+url.PathEscape(args[0]), nil, &v); err != nil {
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

func keyState(k keyView) string {
	if k.Revoked {
		return "revoked"
	}
	return "valid"
}

// must stops the program at its start for a mistake in its own text.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
