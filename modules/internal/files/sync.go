package files

import (
	"errors"
	"fmt"
	"os"
)

// SyncFolder makes the names of new files in a folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	return nil
}
