package ledger

import (
	"strconv"
	"strings"
)

// AttemptID is the id of the seq-th attempt of a request, from 1 on.
func AttemptID(request string, seq int64) string {
	return request + "." + strconv.FormatInt(seq, 10)
}

// ParseAttemptID takes an attempt's id apart; false when AttemptID did not make it.
func ParseAttemptID(id string) (request string, seq int64, ok bool) {
	i := strings.LastIndexByte(id, '.')
	if i < 1 {
		return "", 0, false
	}
	request = id[:i]
	seq, err := strconv.ParseInt(id[i+1:], 10, 64)
	return request, seq, err == nil && seq >= 1 && AttemptID(request, seq) == id
}
