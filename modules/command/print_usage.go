package command

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// usageGroup is how a dimension shows in a report. A key's name is unique in its account only, so that it comes with
// that.
type usageGroup struct {
	titles []string // of the columns for people
	cells  func(admin.Usage) []string
	fields []string // of the columns of CSV
	values func(admin.Usage) []string
}

var usageGroups = map[ledger.Dimension]usageGroup{
	ledger.ByDay: {
		[]string{"DAY"}, func(u admin.Usage) []string { return []string{u.Day} },
		[]string{"day"}, func(u admin.Usage) []string { return []string{u.Day} },
	},
	ledger.ByAccount: {
		[]string{"ACCOUNT"}, func(u admin.Usage) []string { return []string{u.Account} },
		[]string{"account", "account_id"}, func(u admin.Usage) []string { return []string{u.Account, u.AccountID} },
	},
	ledger.ByKey: {
		[]string{"ACCOUNT", "KEY"}, func(u admin.Usage) []string { return []string{u.Account, u.Key} },
		[]string{"account", "account_id", "key", "key_id"},
		func(u admin.Usage) []string { return []string{u.Account, u.AccountID, u.Key, u.KeyID} },
	},
	ledger.ByRoute: {
		[]string{"ROUTE"}, func(u admin.Usage) []string { return []string{orDash(u.Route)} },
		[]string{"route"}, func(u admin.Usage) []string { return []string{u.Route} },
	},
	ledger.ByProfile: {
		[]string{"PROFILE"}, func(u admin.Usage) []string { return []string{orDash(u.Profile)} },
		[]string{"profile"}, func(u admin.Usage) []string { return []string{u.Profile} },
	},
}

// groupsOf are the groups to show, in the order that was asked for. By account and key is by key.
func groupsOf(by []ledger.Dimension) []usageGroup {
	var groups []usageGroup
	for _, d := range by {
		if d != ledger.ByAccount || !slices.Contains(by, ledger.ByKey) {
			groups = append(groups, usageGroups[d])
		}
	}
	return groups
}

// printUsage writes rows as a table, with their sum below. It says up to when detail of what is asked for was pruned.
func printUsage(w io.Writer, by []ledger.Dimension, oneRoute bool, pruned *time.Time,
	rows func(each func(admin.Usage) error) error) error {
	var columns []column
	groups := groupsOf(by)
	for _, g := range groups {
		for _, title := range g.titles {
			columns = append(columns, column{title: title})
		}
	}
	names := len(columns)
	for _, title := range []string{"REQUESTS", "PROMPT", "OUTPUT", "CHARGED", "WAIVED", "OVER",
		"REFUNDED", "COST", "MARGIN", "PENDING"} {
		columns = append(columns, column{title, right})
	}
	var total usageTotal
	empty := "Nothing was used."
	if pruned != nil {
		empty = "No request is left here."
	}
	err := printRows(w, empty, newListing(w, columns...), func(add func(...string) error) error {
		err := rows(func(u admin.Usage) error {
			var cells []string
			for _, g := range groups {
				cells = append(cells, g.cells(u)...)
			}
			total.add(u)
			return add(append(cells, usageCells(u)...)...)
		})
		if err != nil || total.rows < 2 {
			return err
		}
		cells := usageCells(total.sum)
		if slices.Contains(by, ledger.ByRoute) && !oneRoute {
			// A request counts on each route that it was tried on.
			cells[0], cells[len(cells)-1] = "", ""
		}
		label := make([]string, names)
		label[0] = "together"
		return add(append(label, cells...)...)
	})
	if err == nil && pruned != nil {
		which := ""
		switch {
		case total.sum.Pruned > 0 && slices.Contains(by, ledger.ByRoute) && !oneRoute:
			which = "some requests" // one counts on each route that it was tried on
		case total.sum.Pruned > 0:
			which = human.Count(total.sum.Pruned, "request")
		}
		printPrunedUsage(w, *pruned, which)
	}
	return err
}

// printPrunedUsage says that requests of before a time are in the sums only, which ones, or "" where none are.
func printPrunedUsage(w io.Writer, before time.Time, which string) {
	fmt.Fprintf(w, "\nThe detail of requests was pruned up to %s: ", human.Moment(before))
	if which != "" {
		fmt.Fprintf(w, "of %s here only the\nsums of their days are left.\n", which)
		return
	}
	fmt.Fprintln(w, "what is left of them are sums of\nwhole days; they show "+
		"where --since and --until are days, as in 2026-11-20.")
}

func usageCells(u admin.Usage) []string {
	return []string{
		human.Thousands(u.Requests), human.Thousands(promptOf(u.Tokens)), human.Thousands(llm.Tokens(u.Tokens.Output)),
		human.Exact(u.Microcents), human.Exact(u.Waived), human.Exact(u.Over),
		human.Exact(u.Refunded), human.Exact(u.Cost), human.Exact(u.Margin), human.Thousands(u.Pending),
	}
}

func promptOf(t admin.Tokens) int64 {
	return llm.Tokens(t.Input) + llm.Tokens(t.CacheRead) + llm.Tokens(t.CacheWrite)
}

// usageTotal sums the rows of a report.
type usageTotal struct {
	rows int
	sum  admin.Usage
}

func (t *usageTotal) add(u admin.Usage) {
	t.rows++
	s := &t.sum
	s.Requests += u.Requests
	s.Pending += u.Pending
	s.Pruned += u.Pruned
	s.Microcents += u.Microcents
	s.Waived += u.Waived
	s.Over += u.Over
	s.Refunded += u.Refunded
	s.Cost += u.Cost
	s.Margin += u.Margin
	s.Tokens.Input = llm.Count(llm.Tokens(s.Tokens.Input) + promptOf(u.Tokens))
	s.Tokens.Output = llm.Count(llm.Tokens(s.Tokens.Output) + llm.Tokens(u.Tokens.Output))
}

// usageNumbers are the numeric columns of CSV. A token count that was never reported is empty.
var usageNumbers = []string{"requests", "attempts", "input", "cache_read", "cache_write", "output", "reasoning",
	"microcents", "waived_microcents", "over_microcents",
	"refunded_microcents", "cost_microcents", "margin_microcents", "pending", "pruned"}

func writeUsageCSV(w io.Writer, by []ledger.Dimension, rows func(each func(admin.Usage) error) error) error {
	out := csv.NewWriter(w)
	groups := groupsOf(by)
	var head []string
	for _, g := range groups {
		head = append(head, g.fields...)
	}
	if err := out.Write(append(head, usageNumbers...)); err != nil {
		return fmt.Errorf("writing usage: %w", err)
	}
	err := rows(func(u admin.Usage) error {
		var row []string
		for _, g := range groups {
			row = append(row, g.values(u)...)
		}
		return out.Write(append(row, digits(&u.Requests), digits(&u.Attempts),
			digits(u.Tokens.Input), digits(u.Tokens.CacheRead), digits(u.Tokens.CacheWrite), digits(u.Tokens.Output),
			digits(u.Tokens.Reasoning),
			digits(&u.Microcents), digits(&u.Waived), digits(&u.Over),
			digits(&u.Refunded), digits(&u.Cost), digits(&u.Margin), digits(&u.Pending),
			digits(&u.Pruned)))
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// digits writes a number for programs; nothing for one that is not known.
func digits(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
