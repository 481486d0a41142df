package command

import (
	"bytes"
	"fmt"
	"io"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/requestlog"
)

// printRefused writes the arithmetic of a refusal; nothing for nil.
func printRefused(b *bytes.Buffer, r *requestlog.Refused) {
	if r == nil {
		return
	}
	amount, unit := human.Thousands, r.Unit
	if unit == "microcents" {
		amount, unit = human.Exact, "credits"
	}
	fmt.Fprintln(b)
	table(b, func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%s %s\n", r.Name(), amount(r.Limit), unit)
		fmt.Fprintf(w, "- used\t%s\n", amount(r.Used))
		if r.Unit != "requests" {
			fmt.Fprintf(w, "- held\t%s\n", amount(r.Held))
		}
		if r.By == "balance" {
			fmt.Fprintf(w, "= available\t%s, in whole credits\n", amount(r.Left))
		} else {
			fmt.Fprintf(w, "= left\t%s\n", amount(r.Left))
		}
		if r.Needed > 0 {
			fmt.Fprintf(w, "needed\t%s at most\n", amount(r.Needed))
		}
		if r.Allowance > 0 {
			fmt.Fprintf(w, "would have fitted\tan output allowance of %s tokens\n", human.Thousands(r.Allowance))
		}
		if r.Resets != nil {
			fmt.Fprintf(w, "resets\t%s\n", human.Moment(*r.Resets))
		}
	})
}
