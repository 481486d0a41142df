package human

import (
	"strconv"
	"strings"
)

// PlainCell keeps a table program from taking a text in a CSV file for a formula (OWASP, CSV injection), also
// by signs of full width.
func PlainCell(text string) string {
	_, err := strconv.ParseFloat(text, 64)
	if err != nil && text != "" && strings.IndexAny(text, "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") == 0 {
		return "'" + text
	}
	return text
}
