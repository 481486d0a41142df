package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

func nodesCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Shows the gateways that share the ledger, and where they differ",
		Long: `Shows the nodes, the gateways that share this one's ledger (store "postgres"): which
version and configuration each runs, how long its lease lasts unless it renews it,
how many requests it runs, and how many settlements wait in its spool. Below stands
what should be the same on all of them and is not: configuration, prices, versions.

A node that is gone is shown as long as anything is held for it, and one whose lease
has lapsed until the others have released what it held. The configuration is known
by its files' content, not by what they have from the environment.`,
		Example: "  fareway gateway nodes",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v admin.Nodes
			if err := to.call(cmd, "GET", "/fareway/nodes", nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printNodes(w, v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func printNodes(w io.Writer, v admin.Nodes) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "NODE\tSTATE\tLEASE\tRUNS\tSPOOL\tVERSION\tCONFIGURATION\tSINCE\tDATA")
		for _, n := range v.Nodes {
			label := n.Label
			if n.Self {
				label += " (this one)"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", label, n.State, leaseText(&n), n.Holds,
				n.Spooled, orDash(n.Version), orDash(fmt.Sprintf("%.12s", n.ConfigHash)),
				human.Moment(n.Since), orDash(n.Data))
		}
	})
	for _, text := range v.Drift {
		fmt.Fprintf(w, "\nTHEY DIFFER: %s\n", text)
	}
	if len(v.Drift) > 0 {
		fmt.Fprintln(w, gateway.Own("\nGive all of them the same files, and `fareway gateway reload` each."))
	}
}

// leaseText is how long a node's lease lasts, or since when it is over.
func leaseText(n *admin.Node) string {
	d := (time.Duration(n.Lease) * time.Millisecond).Round(time.Second)
	switch {
	case n.State == "gone":
		return "-"
	case d < 0:
		return fmt.Sprintf("over for %s", -d)
	}
	return d.String()
}
