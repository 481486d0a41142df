package command

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func ledgerCheckpointCommand() *cobra.Command {
	var (
		to   target
		out  output
		file string
	)
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Makes a checkpoint over the whole ledger and prints it",
		Long: `Makes a checkpoint, a hash over the journal of all accounts and the audit trail,
and prints it as one line of JSON. ` + "`ledger verify --checkpoint FILE`" + ` proves with it
later that nothing before it was rewritten or removed. For that it has to be kept
elsewhere, where nobody who can write the ledger can change it: with an auditor, in
a mailbox, on paper.

The gateway makes checkpoints by itself, too; they are in its database only.`,
		Example: "  fareway gateway ledger checkpoint >> /mnt/elsewhere/checkpoints.json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var f *files.Output
			if file != "" {
				var err error
				if f, err = files.CreateOutput(file); err != nil {
					return checkpointFileError(file, err)
				}
				defer f.Discard()
			}
			var c ledger.Checkpoint
			if err := to.call(cmd, "POST", "/fareway/ledger/checkpoints", nil, &c); err != nil {
				return err
			}
			return keepCheckpoint(cmd, c, f, out)
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write it into a new `FILE`")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// keepCheckpoint writes the line to stdout, or to a file, and tells people on stderr what it is for.
func keepCheckpoint(cmd *cobra.Command, c ledger.Checkpoint, file *files.Output, out output) error {
	line, err := checkpointLine(c)
	if err != nil {
		return err
	}
	if file == nil {
		_, err = cmd.OutOrStdout().Write(line)
	} else if _, err = file.Write(line); err == nil {
		err = file.Place()
	}
	if err != nil {
		return fmt.Errorf("writing the checkpoint: %w", err)
	}
	if !out.json {
		fmt.Fprintf(cmd.ErrOrStderr(), "Checkpoint %d covers %s, up to %s.\n%s\n", c.N, coverage(c), human.Moment(c.Created),
			gateway.Own(keepElsewhere))
	}
	return nil
}

func checkpointFileError(file string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing the checkpoint into %s: %w: name a new one, or leave -o out and append it with >>", file,
			fs.ErrExist)
	}
	return fmt.Errorf("writing the checkpoint: %w", err)
}

// coverage is what a checkpoint is over.
func coverage(c ledger.Checkpoint) string {
	if c.Format < 2 {
		return movements(c.Entries)
	}
	return movements(c.Entries) + " and " + human.Count(c.Acts, "act") + " of operators"
}

// movements counts entries of the journal.
func movements(n int64) string { return human.Count(n, "movement") + " of money" }
