package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// checkpointTail is how much of a file's end is looked at for checkpoints, in bytes: more than a hundred of them.
const checkpointTail = 32 << 10

// readCheckpoints reads checkpoints that were kept: the lines of a file that hold one. An export has millions of
// other lines, and its checkpoint is the last: only the end of a file is read.
func readCheckpoints(path string) ([]ledger.Checkpoint, error) {
	b, err := readTail(path, checkpointTail)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint: %w", err)
	}
	var found []ledger.Checkpoint
	for line := range bytes.Lines(b) {
		var kept struct {
			Checkpoint *ledger.Checkpoint `json:"checkpoint"`
		}
		if json.Unmarshal(line, &kept) != nil || kept.Checkpoint == nil {
			continue
		}
		if c := kept.Checkpoint; c.N < 1 || c.Entries < 0 || c.Acts < 0 {
			return nil, fmt.Errorf("reading the checkpoint: %s: one that is number %d, over %d movements and %d acts, was "+
				"never made: the line was changed", path, c.N, c.Entries, c.Acts)
		}
		found = append(found, *kept.Checkpoint)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("reading the checkpoint: %s has none: it is a line as `fareway gateway ledger checkpoint` "+
			"prints it, {\"checkpoint\": ...}", path)
	}
	return found, nil
}

// readTail reads at most the last n bytes of a file.
func readTail(path string, n int64) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, size-n), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, n))
}

// checkpointLine is a checkpoint as it is kept: one line, on which nobody else's line looks alike.
func checkpointLine(c ledger.Checkpoint) ([]byte, error) {
	b, err := json.Marshal(admin.KeptCheckpoint{Checkpoint: c})
	if err != nil {
		return nil, fmt.Errorf("writing the checkpoint: %w", err)
	}
	return append(b, '\n'), nil
}

// keepElsewhere is the advice that comes with a checkpoint.
const keepElsewhere = "Keep the checkpoint where nobody who can write the ledger can change it: `fareway gateway " +
	"ledger verify --checkpoint FILE` proves later that nothing before it was rewritten."
