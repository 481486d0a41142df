-- Checkpoints fix the end of the audit trail, too: how many acts it had, and the hash of the last of them. Those that were
-- made before are of format 1 and do not.
ALTER TABLE checkpoints ADD COLUMN format INTEGER NOT NULL DEFAULT 1 CHECK (format IN (1, 2));
ALTER TABLE checkpoints ADD COLUMN acts   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN trail  BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000'
  CHECK (length(trail) = 32);
