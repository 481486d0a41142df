package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/people"
)

func portalCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "portal",
		Short: "Says who may sign in to the pages of the gateway",
		Long: "Says who may sign in to the pages of the gateway (the block portal of the HCL file):\n" +
			"makes links for them, shows and changes what they are, and ends their sessions.",
		Example: "  fareway gateway portal invite ann@example.com --account ann --role owner",
	})
	cmd.AddCommand(portalInviteCommand(), portalFirstCommand(), portalPeopleCommand(), portalRoleCommand(),
		portalResetCommand(), portalStateCommand(true), portalStateCommand(false), portalSessionsCommand(),
		portalRevokeCommand(), portalInvitationsCommand(), portalWithdrawCommand())
	return cmd
}

// portalLink is a whole link: the host is what the configuration says, else where the gateway is reached.
func (t *target) portalLink(cmd *cobra.Command, v *admin.PortalLink) (string, error) {
	if v.URL == "" {
		data, err := t.dir()
		if err != nil {
			return "", err
		}
		v.URL = publicAddress(cmd.Context(), data).url
	}
	return v.URL + v.Path, nil
}

// printPortalLink prints a link, and what it is.
func printPortalLink(w io.Writer, link, what string, v *admin.PortalLink) {
	fmt.Fprintf(w, "%s\n\n%s Whoever has the link may use it, once, until %s.\nIt is not shown again.\n", link, what,
		human.Moment(*v.Expires))
	switch {
	case v.Mailed:
		fmt.Fprintf(w, "It was mailed to %s.\n", v.Email)
	case v.MailError != "":
		fmt.Fprintf(w, "It could not be mailed, so hand it over yourself: %s\n", v.MailError)
	}
}

const mailUsage = "mail the link to them, too (a mail block of the alerts with links = true)"

// portalLinkCommand makes a link and prints it.
func portalLinkCommand(cmd *cobra.Command, to *target, out *output, path string, in any,
	what func(v *admin.PortalLink) string) error {
	var v admin.PortalLink
	if err := to.call(cmd, "POST", path, in, &v); err != nil {
		return err
	}
	if v.Path == "" {
		return out.print(cmd, v, func(w io.Writer) { fmt.Fprintln(w, what(&v)) })
	}
	link, err := to.portalLink(cmd, &v)
	if err != nil {
		return err
	}
	return out.print(cmd, v, func(w io.Writer) { printPortalLink(w, link, what(&v), &v) })
}

func portalInviteCommand() *cobra.Command {
	var (
		to       target
		out      output
		in       admin.NewInvitation
		role     string
		operator string
	)
	cmd := &cobra.Command{
		Use:   "invite EMAIL",
		Short: "Makes a link by which somebody becomes a member of an account, or an operator",
		Long: `Makes a link by which somebody becomes a member of an account, or an operator. Hand
it over in a way that only they can read: whoever has it may use it, once, within 7
days. An owner invites others, a member makes keys, and a viewer looks. An admin may
all, support helps accounts, and read-only looks.`,
		Example: "  fareway gateway portal invite ann@example.com --account ann --role owner\n" +
			"  fareway gateway portal invite bob@example.com --operator support",
		Args: exactly("EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case in.Account == "" && operator == "":
				return fmt.Errorf("to what is missing: say --account NAME, --operator, or both, as in `%s EMAIL --account NAME`",
					cmd.CommandPath())
			case in.Account == "" && role != "":
				return errors.New("--role is one in an account: say --account NAME, too")
			}
			in.Email, in.Role, in.Operator = args[0], people.Role(role), people.Operator(operator)
			if in.Account != "" && role == "" {
				in.Role = people.RoleMember
			}
			return portalLinkCommand(cmd, &to, &out, "/fareway/portal/invitations", in, func(v *admin.PortalLink) string {
				return fmt.Sprintf("This invites %s %s.", v.Email, invitedTo(in.Account, in.Role, in.Operator))
			})
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `NAME` of an account")
	cmd.Flags().BoolVar(&in.Mail, "mail", false, mailUsage)
	cmd.Flags().StringVar(&role, "role", "", "what they are there: owner, member or viewer (default member)")
	cmd.Flags().StringVar(&operator, "operator", "", "what they are for the gateway: admin, support or read-only")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// invitedTo says what an invitation is to.
func invitedTo(account string, role people.Role, operator people.Operator) string {
	var to []string
	if account != "" {
		to = append(to, fmt.Sprintf("to account %s as %s", account, role))
	}
	if operator != "" {
		to = append(to, fmt.Sprintf("to be an operator (%s)", operator))
	}
	return strings.Join(to, ", and ")
}

func portalFirstCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "first",
		Short: "Makes the link by which the first admin comes in",
		Long: `Makes the link by which the first admin comes in, where there is none who can. The
link before it opens nothing any more. "gateway up" prints one when it starts.`,
		Example: "  fareway gateway portal first",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return portalLinkCommand(cmd, &to, &out, "/fareway/portal/first", nil, func(v *admin.PortalLink) string {
				if v.Path == "" {
					return gateway.Own("There is an admin already: `fareway gateway portal people` shows who, and `fareway gateway " +
						"portal reset EMAIL` lets one in who has forgotten the password.")
				}
				return "This makes the first admin."
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalPeopleCommand() *cobra.Command {
	var (
		to      target
		out     output
		account string
	)
	cmd := &cobra.Command{
		Use:     "people",
		Short:   "Lists who may sign in, to one account or all",
		Example: "  fareway gateway portal people\n  fareway gateway portal people --account ann",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			query := url.Values{}
			if account != "" {
				query.Set("account", account)
			}
			if out.json {
				return copyArray(cmd.Context(), c, "/fareway/portal/people", query, cmd.OutOrStdout())
			}
			w := screen(cmd)
			return printRows(w, gateway.Own("Nobody may: invite somebody with `fareway gateway portal invite EMAIL --account "+
				"NAME`, or make the first admin with `fareway gateway portal first`."),
				newListing(w, column{title: "EMAIL"}, column{title: "NAME"}, column{title: "OPERATOR"}, column{title: "ACCOUNTS"},
					column{title: "SIGNS IN BY"}, column{title: "LAST"}),
				func(add func(...string) error) error {
					return admin.ReadList(cmd.Context(), c, "/fareway/portal/people", query, func(p admin.PortalPerson) error {
						return add(p.Email, orDash(p.Name), orDash(string(p.Operator)), accountsOf(&p), waysIn(&p),
							momentOrDash(p.SignedIn))
					})
				})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only members of the account `NAME`")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountsOf(p *admin.PortalPerson) string {
	var all []string
	for _, m := range p.Accounts {
		all = append(all, m.Account+" ("+string(m.Role)+")")
	}
	return orDash(strings.Join(all, ", "))
}

// waysIn says by what a person signs in.
func waysIn(p *admin.PortalPerson) string {
	if p.Disabled {
		return "DISABLED"
	}
	var ways []string
	switch {
	case p.HasPassword && p.HasTOTP:
		ways = append(ways, "password and code")
	case p.HasPassword:
		ways = append(ways, "password")
	}
	if p.Passkeys > 0 {
		ways = append(ways, human.Count(int64(p.Passkeys), "passkey"))
	}
	return cmp.Or(strings.Join(ways, ", "), "OpenID Connect")
}

func momentOrDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return human.Moment(t)
}

// personPath is that of a person in the admin API.
func personPath(email string) string { return "/fareway/portal/people/" + url.PathEscape(email) }

func printPerson(w io.Writer, p *admin.PortalPerson) {
	fmt.Fprintf(w, "%s: operator %s, accounts %s, signs in by %s.\n", p.Email, orDash(string(p.Operator)), accountsOf(p),
		waysIn(p))
}

func portalRoleCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.PortalRole
	)
	cmd := &cobra.Command{
		Use:   "role EMAIL",
		Short: "Changes what somebody is in an account, or for the gateway",
		Long: `Changes what a member is in an account, or what somebody is for the gateway; "none"
takes it away. Who is no member yet becomes one by "portal invite". The last owner of
an account and the last admin stay what they are. Whose operator's role changes has to
sign in anew.`,
		Example: "  fareway gateway portal role ann@example.com --account ann --role viewer\n" +
			"  fareway gateway portal role bob@example.com --operator none",
		Args: exactly("EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Account+in.Role+in.Operator == "" {
				return fmt.Errorf("nothing is asked for: say --account and --role, or --operator, as in `%s EMAIL --operator "+
					"support`", cmd.CommandPath())
			}
			var v admin.PortalPerson
			if err := to.call(cmd, "POST", personPath(args[0])+"/role", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printPerson(w, &v) })
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `NAME` of an account")
	cmd.Flags().StringVar(&in.Role, "role", "", "what they are there: owner, member, viewer or none")
	cmd.Flags().StringVar(&in.Operator, "operator", "", "what they are for the gateway: admin, support, read-only "+
		"or none")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalResetCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.NewReset
	)
	cmd := &cobra.Command{
		Use:   "reset EMAIL",
		Short: "Makes a link by which somebody sets a new password",
		Long: `Makes a link by which somebody sets a new password, within a day. Used, it ends their
sessions, and takes their app for codes, recovery codes and passkeys away: make sure
that it reaches nobody else.`,
		Example: "  fareway gateway portal reset ann@example.com",
		Args:    exactly("EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return portalLinkCommand(cmd, &to, &out, personPath(args[0])+"/reset", in, func(v *admin.PortalLink) string {
				return "This sets a new password of " + v.Email + "."
			})
		},
	}
	cmd.Flags().BoolVar(&in.Mail, "mail", false, mailUsage)
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalStateCommand(disabled bool) *cobra.Command {
	var (
		to  target
		out output
	)
	name, short := "enable", "Lets somebody in again who was kept out"
	if disabled {
		name, short = "disable", "Keeps somebody out, and ends their sessions at once"
	}
	cmd := &cobra.Command{
		Use:     name + " EMAIL",
		Short:   short,
		Example: "  fareway gateway portal " + name + " ann@example.com",
		Args:    exactly("EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.PortalPerson
			in := admin.PortalState{Disabled: disabled}
			if err := to.call(cmd, "POST", personPath(args[0])+"/state", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printPerson(w, &v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalSessionsCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "sessions EMAIL",
		Short:   "Lists the sessions of somebody",
		Example: "  fareway gateway portal sessions ann@example.com",
		Args:    exactly("EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			path := personPath(args[0]) + "/sessions"
			if out.json {
				return copyArray(cmd.Context(), c, path, nil, cmd.OutOrStdout())
			}
			w := screen(cmd)
			return printRows(w, "There are none.",
				newListing(w, column{title: "ID"}, column{title: "BEGAN"}, column{title: "SEEN"}, column{title: "ADDRESS"},
					column{title: "BY"}, column{title: "BROWSER"}),
				func(add func(...string) error) error {
					return admin.ReadList(cmd.Context(), c, path, nil, func(s people.Session) error {
						return add(s.ID, human.Moment(s.Created), human.Moment(s.Seen), orDash(s.Address), s.Method, orDash(s.Agent))
					})
				})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalRevokeCommand() *cobra.Command {
	var (
		to      target
		out     output
		session string
	)
	cmd := &cobra.Command{
		Use:   "revoke EMAIL",
		Short: "Ends the sessions of somebody, or one of them",
		Example: "  fareway gateway portal revoke ann@example.com\n" +
			"  fareway gateway portal revoke ann@example.com --session session_0123456789abcdef01234567",
		Args: exactly("EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := personPath(args[0]) + "/sessions"
			if session != "" {
				path += "/" + url.PathEscape(session)
			}
			var v admin.PortalRevoked
			if err := to.call(cmd, "DELETE", path, nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "%s of %s ended.\n", cmp.Or(v.Session, "All sessions"), v.Email)
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "only the one with this `ID`")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalInvitationsCommand() *cobra.Command {
	var (
		to      target
		out     output
		account string
	)
	cmd := &cobra.Command{
		Use:     "invitations",
		Short:   "Lists the links that were made and are not used",
		Example: "  fareway gateway portal invitations --account ann",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			query := url.Values{}
			if account != "" {
				query.Set("account", account)
			}
			if out.json {
				return copyArray(cmd.Context(), c, "/fareway/portal/invitations", query, cmd.OutOrStdout())
			}
			w := screen(cmd)
			return printRows(w, "There are none.",
				newListing(w, column{title: "ID"}, column{title: "EMAIL"}, column{title: "TO"}, column{title: "MADE BY"},
					column{title: "UNTIL"}),
				func(add func(...string) error) error {
					return admin.ReadList(cmd.Context(), c, "/fareway/portal/invitations", query, func(v people.Invitation) error {
						what := invitedTo(v.Account, v.Role, v.Operator)
						if v.Reset {
							what = "set a new password"
						}
						return add(v.ID, orDash(v.Email), what, v.By, human.Moment(v.Expires))
					})
				})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only those to the account `NAME`")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func portalWithdrawCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "withdraw ID",
		Short:   "Has a link open nothing any more",
		Example: "  fareway gateway portal withdraw invitation_0123456789abcdef01234567",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v map[string]string
			if err := to.call(cmd, "DELETE", "/fareway/portal/invitations/"+url.PathEscape(args[0]), nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { fmt.Fprintf(w, "Invitation %s is withdrawn.\n", args[0]) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
