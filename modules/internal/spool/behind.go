package spool

import "fmt"

// behind says how a spool is synced behind what it has acknowledged.
type behind struct {
	on       bool
	unsynced bool  // there is something
	begun    int64 // rounds of syncs that have begun
	ended    int64 // the last of them that has ended well
}

// SyncBehind has Append return when a settlement is written, so that it survives this process; it survives a loss of
// power when a Sync that began later has ended.
func (s *Spool) SyncBehind() {
	s.io.Lock()
	defer s.io.Unlock()
	s.behind.on = true
}

// Sync has on the disk what was appended before, with SyncBehind. syncLedger has the ledger's commits on the disk:
// until then what was released stays, for a loss of power could take it from the ledger. It keeps nobody waiting.
func (s *Spool) Sync(syncLedger func() error) error {
	s.io.Lock()
	s.behind.begun++
	round, unsynced := s.behind.begun, s.behind.unsynced
	s.behind.unsynced = false
	s.io.Unlock()
	if unsynced {
		if err := s.file.Sync(); err != nil {
			s.io.Lock()
			s.behind.unsynced = true
			s.io.Unlock()
			return fmt.Errorf("syncing the spool: %w", err)
		}
	}
	if err := syncLedger(); err != nil {
		return err
	}
	s.io.Lock()
	s.behind.ended = round
	s.io.Unlock()
	return nil
}

// isFree reports whether nothing of a half is needed any more: none in it waits, and what was released is on the disk
// with the ledger.
func (s *Spool) isFree(h *half) bool {
	return h.left == 0 && (!s.behind.on || h.seq == 0 || h.freed < s.behind.ended)
}
