-- Whether what the attempt used is the operator's, and never the account's: it lost to another one that was made beside it.
ALTER TABLE attempts ADD COLUMN operator INTEGER NOT NULL DEFAULT 0 CHECK (operator IN (0, 1));
