-- A block is requests that ended one after the other, as encode.go writes them.
CREATE TABLE blocks (
	n INTEGER PRIMARY KEY,
	low TEXT NOT NULL,         -- the lowest and the highest id of its requests
	high TEXT NOT NULL,
	last INTEGER NOT NULL,     -- when the last of them ended, in milliseconds since 1970
	requests INTEGER NOT NULL, -- how many there are
	data BLOB NOT NULL
) STRICT;
CREATE INDEX ids ON blocks (low, high);
CREATE INDEX ends ON blocks (last, requests);
