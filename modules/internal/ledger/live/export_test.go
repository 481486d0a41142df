package live

import "context"

// Flush waits until what was decided is taken up.
func (l *Ledger) Flush(ctx context.Context) error { return l.flush(ctx) }
