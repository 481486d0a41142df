package postgres

// Schema is the text of the first migration.
func Schema() (string, error) {
	b, err := schemas.ReadFile("schema/00001_ledger.sql")
	return string(b), err
}
