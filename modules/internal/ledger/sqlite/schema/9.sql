-- What is counted of routes' outcomes: see ledger.Learned. at: nanoseconds since 1970.
CREATE TABLE learned (
  route  TEXT NOT NULL,
  model  TEXT NOT NULL,
  kind   TEXT NOT NULL,
  worked REAL NOT NULL,
  failed REAL NOT NULL,
  good   REAL NOT NULL,
  bad    REAL NOT NULL,
  at     INTEGER NOT NULL,
  PRIMARY KEY (route, model, kind)
) STRICT, WITHOUT ROWID;
