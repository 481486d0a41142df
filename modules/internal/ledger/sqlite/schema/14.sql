-- What the upstream of an attempt is asked by for its receipt: its own name of the attempt, of up to 256 bytes; NULL where it
-- has said none, or needs none. It is no money and in no hash: see doc.go, "What makes an entry".
ALTER TABLE holds   ADD COLUMN reference TEXT;
ALTER TABLE waiting ADD COLUMN reference TEXT;
