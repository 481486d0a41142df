package engine

import (
	"time"

	"github.com/fareway/fareway/config"
)

// FailedLoad is a configuration that was not taken while another serves.
type FailedLoad struct {
	At   time.Time
	Path string // of the HCL file
	// Problem says why, in one line or few.
	Problem string
	// InFile: the reason is in the HCL file, or in what that names.
	InFile bool
	// Diagnostics are what is wrong in the file; nil when that is not the reason.
	Diagnostics *config.Diagnostics
}

// NoteFailedLoad keeps a failed load until the next one succeeds, for operators who ask why nothing has changed.
func (c *configuration) NoteFailedLoad(f FailedLoad) {
	f.At = c.Now()
	c.failed.Store(&f)
	c.metrics.refused.Set(1)
}

// FailedLoad is the last load when that has failed, nil otherwise.
func (c *configuration) FailedLoad() *FailedLoad { return c.failed.Load() }
