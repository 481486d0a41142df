-- Whether the attempt is made beside another one: where nobody says how it ended, what it used is the operator's.
ALTER TABLE holds ADD COLUMN beside INTEGER NOT NULL DEFAULT 0 CHECK (beside IN (0, 1));
