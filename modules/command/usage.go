package command

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

// usageReport is one run of `gateway usage`.
type usageReport struct {
	target
	output
	filter  listFilter
	keys    []string
	route   string
	profile string
	month   string
	by      []string
	csv     bool
	focus   bool
	issuer  string
}

func usageCommand() *cobra.Command {
	u := new(usageReport)
	cmd := &cobra.Command{
		Use:   "usage [REQUEST]",
		Short: "Sums what was used, charged and earned; or shows one request's arithmetic",
		Long: `Sums settled requests by account, key, route, profile or day (in UTC), or by several:
tokens, what was charged, what that cost the operator (a route's cost in the
configuration) and the margin, which is what was charged less refunds and cost. Amounts are in
credits with six decimals, which are microcents.

Grouped by route, a request counts on each route that it was tried on, and what it
was charged is divided over its attempts in proportion to what each comes to by
itself, so that the routes come to exactly the whole; so are its refunds and what
fair use left free.

With --focus it is CSV of FOCUS 1.2, the FinOps Open Cost and Usage Specification: a row
for each day, key and route, in US dollars, for an account or all. BilledCost is what
use has taken, less refunds, which have rows of their own; top-ups are in none. Days are
whole ones of UTC. --issuer is who sells the credits, as the columns InvoiceIssuerName,
ProviderName and PublisherName have it.

Requests whose detail was pruned (` + "`ledger prune`" + `) are in it by the sums of their days,
and the report says how many they are. Where --since or --until cuts a day, those of
that day are left out.

With the id of a request it shows that one, running or settled, with every step of
its charge, so that it can be done again by hand. Requests that were refused, or that
cost nothing, are found for request_log (7 days where the configuration does not say
otherwise): when they came, from whom, and what they were told. Of one whose detail was
pruned it says so, and what the movements of money still have of it, with status 1.

It asks the gateway that runs, and reads the files in the data folder when none
does. With --json it prints JSON lines, or one object for a request.`,
		Example: "  fareway gateway usage --by account,day --since 30d\n" +
			"  fareway gateway usage --by profile --since 30d\n" +
			"  fareway gateway usage --by route --account ann --since 2026-11-01 --until 2026-12-01 --csv\n" +
			"  fareway gateway usage --focus --month 2026-11 --issuer 'Acme AI' > focus-2026-11.csv\n" +
			"  fareway gateway usage req_0123456789abcdef",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return fmt.Errorf("%q is one argument too many for `%s`", args[1], cmd.UseLine())
			case len(args) == 1:
				return u.request(cmd, args[0])
			}
			if err := u.checkFlags(cmd); err != nil {
				return err
			}
			return u.sums(cmd)
		},
	}
	cmd.Flags().StringSliceVar(&u.by, "by", []string{"account"},
		"group by `WHAT`: account, key, route, profile or day, or several with commas")
	u.filter.addFlags(cmd)
	cmd.Flags().StringArrayVar(&u.keys, "key", nil,
		"only the key with this `ID`; with --account, its name will do; may be given again, for more")
	cmd.Flags().StringVar(&u.route, "route", "", "only attempts on the route `NAME`")
	cmd.Flags().StringVar(&u.profile, "profile", "", "only requests that ran with the `PROFILE` budget, balanced or max")
	cmd.Flags().StringVar(&u.month, "month", "", "only the `MONTH` of UTC, as in 2026-11")
	cmd.Flags().BoolVar(&u.focus, "focus", false, "print CSV of FOCUS 1.2, with amounts in US dollars")
	cmd.Flags().StringVar(&u.issuer, "issuer", "Fareway", "with --focus, the `NAME` of who sells the credits")
	cmd.Flags().BoolVar(&u.csv, "csv", false, "print CSV, with amounts in microcents")
	u.target.addFlags(cmd)
	u.addFromFlag(cmd)
	u.output.addFlag(cmd)
	return cmd
}

// checkFlags says which flags do not go together.
func (u *usageReport) checkFlags(cmd *cobra.Command) error {
	for _, not := range [...][3]string{
		{"csv", "json", "each is a form of the output"},
		{"focus", "csv", "each is a form of the output"},
		{"focus", "json", "each is a form of the output"},
		{"focus", "by", "FOCUS has rows by day, key and route"},
		{"month", "since", "each says where it begins"},
		{"month", "until", "each says where it ends"},
	} {
		if err := notBoth(cmd, not[0], not[1], not[2]); err != nil {
			return err
		}
	}
	switch {
	case cmd.Flags().Changed("issuer") && !u.focus:
		return errors.New("--issuer is for --focus: add that, or leave it out")
	case u.focus && strings.TrimSpace(u.issuer) == "":
		return errors.New("--issuer is empty: name who sells the credits")
	}
	return nil
}

// query is what is asked of the admin API.
func (u *usageReport) query() (url.Values, error) {
	query, err := u.filter.query()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"route": u.route, "profile": u.profile} {
		if value != "" {
			query.Set(name, value)
		}
	}
	query["key"] = u.keys
	query.Set("by", strings.Join(u.by, ","))
	if u.month != "" {
		from, err := time.Parse("2006-01", u.month)
		if err != nil {
			return nil, fmt.Errorf("--month %q: write a year and a month, as in 2026-11", u.month)
		}
		query.Set("since", from.Format(time.RFC3339))
		query.Set("until", from.AddDate(0, 1, 0).Format(time.RFC3339))
	}
	if u.focus {
		query.Set("by", admin.FocusBy)
		return query, requireDays(query)
	}
	return query, nil
}

// requireDays is an error where the time asked for is not of whole days, which are all that FOCUS has rows of.
func requireDays(query url.Values) error {
	if query.Get("since") == "" {
		return errors.New("--focus needs a beginning: --month 2026-11, or --since 2026-11-01 --until 2026-12-01")
	}
	for _, name := range [...]string{"since", "until"} {
		t, err := time.Parse(time.RFC3339Nano, query.Get(name))
		if err == nil && !t.Equal(t.UTC().Truncate(24*time.Hour)) {
			return fmt.Errorf("--%s is in the middle of a day, at %s: --focus has whole days of UTC, as in %s", name,
				human.Moment(t), t.UTC().Format(time.DateOnly))
		}
	}
	return nil
}

// request prints one request.
func (u *usageReport) request(cmd *cobra.Command, id string) error {
	for _, name := range [...]string{"by", "account", "since", "until", "month", "key", "route", "profile", "csv",
		"focus", "issuer"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for sums: leave it out, or leave out the request %s", name, id)
		}
	}
	var v admin.Request
	err := u.read(cmd, func(c *admin.Client) error {
		return c.Call(cmd.Context(), "GET", "/fareway/usage/"+url.PathEscape(id), nil, &v)
	})
	if err != nil {
		return u.orPruned(cmd, err)
	}
	if u.json {
		return u.print(cmd, v, nil)
	}
	return printRequest(screen(cmd), v)
}

func (u *usageReport) sums(cmd *cobra.Command) error {
	by, err := admin.ParseDimensions(strings.Join(u.by, ","))
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	if len(by) == 0 {
		return errors.New("--by is empty: name account, key, route, profile or day")
	}
	query, err := u.query()
	if err != nil {
		return err
	}
	return u.read(cmd, func(c *admin.Client) error {
		w := cmd.OutOrStdout()
		rows := func(each func(admin.Usage) error) error {
			return admin.ReadList(cmd.Context(), c, "/fareway/usage", query, each)
		}
		switch {
		case u.focus:
			return admin.WriteFocus(w, u.issuer, rows)
		case u.json:
			return c.Lines(cmd.Context(), "/fareway/usage", query, writeLines(w))
		case u.csv:
			return writeUsageCSV(w, by, rows)
		}
		var p admin.PrunedBefore
		if err := c.Call(cmd.Context(), "GET", "/fareway/ledger/pruned", nil, &p); err != nil {
			return err
		}
		since, _ := time.Parse(time.RFC3339Nano, query.Get("since")) // none: the zero time
		if p.Before != nil && !since.Before(*p.Before) {
			p.Before = nil // all that is asked for is there
		}
		return printUsage(screen(cmd), by, u.route != "", p.Before, rows)
	})
}
