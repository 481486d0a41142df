-- The move of this ledger to another store: where it goes, without what is secret of that, and whether it is there. How many owners
-- (processes that ever opened it), entries and acts it had when the move was last begun shows whether it was written since. A ledger
-- that is done is served no more, and is kept as it was.
CREATE TABLE moves (
  move    TEXT PRIMARY KEY,
  target  TEXT NOT NULL,
  owners  INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  acts    INTEGER NOT NULL,
  begun   INTEGER NOT NULL,
  done    INTEGER
) STRICT, WITHOUT ROWID;
