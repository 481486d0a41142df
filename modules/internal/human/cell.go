package human

import (
	"strconv"
	"strings"
)

// PlainCell keeps a table program from taking a text in a CSV file for a formula (OWASP, CSV injection).
func PlainCell(text string) string {
	_, err := strconv.ParseFloat(text, 64)
	if err != nil && text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
