package predict

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// kindOfFile is what model files of all versions begin with.
const kindOfFile = "fareway route model "

// otherVersion says what a file is that does not begin as one of this version. Its error wraps ErrModel.
func otherVersion(file []byte) error {
	rest, ok := bytes.CutPrefix(file, []byte(kindOfFile))
	line, _, whole := bytes.Cut(rest[:min(len(rest), 8)], []byte("\n"))
	version, err := strconv.ParseUint(string(line), 10, 16)
	switch {
	case len(file) == 0:
		return fmt.Errorf("%w (it is empty)", ErrModel)
	case !ok || !whole || err != nil:
		return fmt.Errorf("%w (it is no model: it does not begin with %q)", ErrModel, strings.TrimSpace(kindOfFile))
	}
	return fmt.Errorf("%w (it is of version %d, and this fareway reads %s)", ErrModel, version,
		strings.TrimSpace(strings.TrimPrefix(magic, kindOfFile)))
}
