package command

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/human"
)

// listFilter is the flags that narrow a list.
type listFilter struct{ account, since, until string }

func (f *listFilter) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.account, "account", "", "only the account `NAME`")
	cmd.Flags().StringVar(&f.since, "since", "", "from a `TIME` on: a date, RFC 3339, or how long ago, as in 30d")
	cmd.Flags().StringVar(&f.until, "until", "", "before a `TIME`, which is not included")
}

// query is the flags as the admin API has them.
func (f *listFilter) query() (url.Values, error) {
	values := url.Values{}
	if f.account != "" {
		values.Set("account", f.account)
	}
	now := time.Now()
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		t, err := human.ParsePast(text, now)
		if err != nil {
			return nil, fmt.Errorf("--%s %w", name, err)
		}
		values.Set(name, t.Format(time.RFC3339Nano))
	}
	return values, nil
}

// writeLines copies the lines of a list: JSON, as a terminal can show it.
func writeLines(w io.Writer) func([]byte) error {
	w = human.ScreenJSON(w)
	return func(line []byte) error {
		_, err := w.Write(line)
		return err
	}
}
