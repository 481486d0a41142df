package command

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// export is one run of `gateway ledger export`.
type export struct {
	target
	output
	filter         listFilter
	format         string // "jsonl" or "csv"
	file           string
	checkpointFile string
}

func ledgerExportCommand() *cobra.Command {
	x := new(export)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Exports the journal, with a checkpoint to keep elsewhere",
		Long: `Exports the journal: every movement of money, oldest first, with its hash and the
hash of the one before it in its account. Amounts are in microcents (1 credit =
1,000,000 microcents); a charge is negative.

When a gateway runs, it makes a checkpoint first and the export ends at it; when
none does, the database is read as it is, and the newest checkpoint is given. In
JSON lines the checkpoint is the last line; beside CSV it goes into
--checkpoint-file, or to stderr.`,
		Example: "  fareway gateway ledger export --format csv -o journal.csv --checkpoint-file checkpoint.json\n" +
			"  fareway gateway ledger export --account ann --since 2026-11-01 --until 2026-12-01",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notBoth(cmd, "json", "format", "--json is --format jsonl"); err != nil {
				return err
			}
			return x.run(cmd)
		},
	}
	cmd.Flags().StringVar(&x.format, "format", "jsonl", "`FORMAT`: jsonl or csv")
	cmd.Flags().StringVarP(&x.file, "output", "o", "", "write into a `FILE`, which is replaced")
	cmd.Flags().StringVar(&x.checkpointFile, "checkpoint-file", "",
		"write the checkpoint into a `FILE` of its own, which is replaced")
	x.filter.addFlags(cmd)
	x.target.addFlags(cmd)
	x.addFromFlag(cmd)
	cmd.Flags().BoolVar(&x.json, "json", false, "the same as --format jsonl")
	return cmd
}

func (x *export) run(cmd *cobra.Command) (err error) {
	if x.format != "csv" && x.format != "jsonl" {
		return fmt.Errorf("--format %q: there are jsonl and csv", x.format)
	}
	query, err := x.filter.query()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	var outputs []*files.Output // which take their places when all is written
	open := func(path string) (io.Writer, error) {
		f, err := files.OpenOutput(path)
		if err == nil {
			outputs = append(outputs, f)
		}
		return f, err
	}
	defer func() {
		for _, f := range outputs {
			f.Discard()
		}
	}()
	if x.file != "" {
		if w, err = open(x.file); err != nil {
			return fmt.Errorf("writing the export: %w", err)
		}
	}
	var aside io.Writer
	if x.checkpointFile != "" {
		if aside, err = open(x.checkpointFile); err != nil {
			return fmt.Errorf("writing the checkpoint: %w", err)
		}
	}
	buffered := bufio.NewWriterSize(w, admin.ListBuffer)
	var checkpoint *ledger.Checkpoint
	err = x.read(cmd, func(c *admin.Client) error {
		if x.filter.account != "" { // before a checkpoint is made for nothing
			if err := c.Call(cmd.Context(), "GET", accountPath(x.filter.account), nil, new(admin.Account)); err != nil {
				return err
			}
		}
		if checkpoint, err = newestCheckpoint(cmd, c); err != nil {
			return err
		}
		return x.entries(cmd, c, query, buffered, checkpoint)
	})
	if err != nil {
		return err
	}
	if err := x.finish(cmd, buffered, aside, checkpoint); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	for _, f := range outputs {
		if err := f.Place(); err != nil {
			return fmt.Errorf("writing the export: %w", err)
		}
	}
	return nil
}

// newestCheckpoint makes a checkpoint or, offline, finds the newest one; nil when there is none.
func newestCheckpoint(cmd *cobra.Command, c *admin.Client) (*ledger.Checkpoint, error) {
	if !c.Offline {
		made := new(ledger.Checkpoint)
		return made, c.Call(cmd.Context(), "POST", "/fareway/ledger/checkpoints", nil, made)
	}
	var newest *ledger.Checkpoint
	err := admin.ReadList(cmd.Context(), c, "/fareway/ledger/checkpoints", nil, func(v ledger.Checkpoint) error {
		newest = &v
		return nil
	})
	return newest, err
}

// entries writes the journal: up to the checkpoint that was made for it, so that every line of it is proven.
func (x *export) entries(cmd *cobra.Command, c *admin.Client, query url.Values, w *bufio.Writer,
	checkpoint *ledger.Checkpoint) error {
	if !c.Offline {
		query.Set("checkpoint", strconv.FormatInt(checkpoint.N, 10))
	}
	if x.format == "csv" {
		return exportCSV(cmd, c, query, w)
	}
	return c.Lines(cmd.Context(), "/fareway/ledger/entries", query, func(line []byte) error {
		_, err := w.Write(line)
		return err
	})
}

var exportColumns = []string{"n", "time", "account", "seq", "kind", "book", "request", "reference", "reason", "prices",
	"microcents", "waived_microcents", "over_microcents", "tokens", "detail",
	"credits", "accrued", "format", "prev", "hash"}

func exportRow(e admin.Entry) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	n, detail := "", ""
	if e.N > 0 {
		n = number(e.N)
	}
	if e.Detail != (ledger.Digest{}) {
		detail = e.Detail.String()
	}
	return []string{n, e.Created.UTC().Format(time.RFC3339Nano), e.Account, number(e.Seq), string(e.Kind), string(e.Book),
		e.Request, e.Reference, e.Reason, e.Prices, number(e.Microcents),
		number(e.Waived), number(e.Over), number(e.Tokens), detail, number(e.Credits), number(e.Accrued), number(e.Format),
		e.Prev.String(), e.Hash.String()}
}

// finish writes the checkpoint where it belongs, into a file of its own where that is asked for, and tells people what
// it is for.
func (x *export) finish(cmd *cobra.Command, w, aside io.Writer, checkpoint *ledger.Checkpoint) error {
	if checkpoint == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), gateway.Own("The ledger has no checkpoint yet: start the gateway, and `fareway "+
			"gateway ledger checkpoint` makes one."))
		return nil
	}
	line, err := checkpointLine(*checkpoint)
	if err != nil {
		return err
	}
	where := "the last line"
	if x.format == "jsonl" {
		_, err = w.Write(line)
	}
	switch {
	case err != nil:
	case aside != nil:
		_, err = aside.Write(line)
		where = x.checkpointFile
	case x.format == "csv":
		_, err = cmd.ErrOrStderr().Write(line)
		where = "the line above"
	}
	if err != nil {
		return fmt.Errorf("writing the checkpoint: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Checkpoint %d (%s) covers the first %s.\n%s\n", checkpoint.N, where,
		coverage(*checkpoint), gateway.Own(keepElsewhere))
	return nil
}

func exportCSV(cmd *cobra.Command, c *admin.Client, query url.Values, w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(exportColumns); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	err := admin.ReadList(cmd.Context(), c, "/fareway/ledger/entries", query, func(e admin.Entry) error {
		return out.Write(exportRow(e))
	})
	out.Flush()
	return cmp.Or(err, out.Error())
}
