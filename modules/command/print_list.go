package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

// printRows writes a listing as its rows come, or says that there are none.
func printRows(w io.Writer, none string, l *listing, rows func(add func(...string) error) error) error {
	some := false
	err := rows(func(cells ...string) error {
		some = true
		return l.add(cells...)
	})
	if err != nil {
		return err
	}
	if !some {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	return l.end()
}

// copyArray prints a list of the admin API as one JSON array, element by element.
func copyArray(ctx context.Context, c *admin.Client, path string, query url.Values, w io.Writer) error {
	out := bufio.NewWriterSize(human.ScreenJSON(w), admin.ListBuffer)
	var element bytes.Buffer
	n := 0
	err := c.Lines(ctx, path, query, func(line []byte) error {
		element.Reset()
		if n++; n == 1 {
			element.WriteString("[\n  ")
		} else {
			element.WriteString(",\n  ")
		}
		if err := json.Indent(&element, bytes.TrimSuffix(line, []byte("\n")), "  ", "  "); err != nil {
			return fmt.Errorf("reading a line of a list: %w", err)
		}
		_, err := element.WriteTo(out)
		return err
	})
	if err != nil {
		return err
	}
	end := "\n]\n"
	if n == 0 {
		end = "[]\n"
	}
	if _, err := out.WriteString(end); err != nil {
		return err
	}
	return out.Flush()
}
