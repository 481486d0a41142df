package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// report is what `up` tells about.
type report struct {
	site   *site
	trial  trial
	engine *engine.Engine
	data   string
	made   []string // starter files that are new
}

// upView is what `up --json` prints when it serves.
type upView struct {
	PID      int      `json:"pid"`
	Version  string   `json:"version"`
	URLs     []string `json:"urls"` // where clients reach it, without a slash at the end
	Data     string   `json:"data"`
	Config   string   `json:"config"`    // the HCL file
	Site     string   `json:"caddyfile"` // the Caddyfile
	NewFiles []string `json:"new_files"` // names of those that were written, in the data folder
	Account  string   `json:"account"`
	KeyFile  string   `json:"key_file"` // has the account's key
	// PortalLink makes the first admin of the portal: whoever has it may use it, once. "" where there is one, or no
	// portal.
	PortalLink string `json:"portal_link,omitempty"`
	// Selftest is what came of one request in each shape; absent with --no-selftest.
	Selftest []selftestView `json:"selftest,omitempty"`
}

type selftestView struct {
	Path       string `json:"path"`
	Stream     bool   `json:"stream"`
	OK         bool   `json:"ok"`
	Text       string `json:"text,omitempty"` // of the reply
	Microcents int64  `json:"microcents"`
	Error      string `json:"error,omitempty"`
}

// people is where words go: stdout has nothing but the object with --json.
func (u *upRun) people() io.Writer {
	if u.json {
		return u.err
	}
	return u.out
}

// printJSON is printAll, and printListening, for programs.
func (u *upRun) printJSON(ctx context.Context, r report) error {
	v := upView{PID: os.Getpid(), Version: gateway.Version(), URLs: []string{}, Data: r.data, Config: r.site.config,
		Site: r.site.file, NewFiles: append([]string{}, r.made...), Account: r.trial.account.Name,
		KeyFile: filepath.Join(r.data, trialKeyFile)}
	for _, e := range r.site.public {
		v.URLs = append(v.URLs, e.url)
	}
	u.warnListen(r.site)
	v.PortalLink = u.firstLink(ctx, r)
	if !u.noSelftest {
		for _, s := range connect.Shapes {
			result, err := r.try(ctx, s)
			view := selftestView{Path: s.Path, Stream: s.Stream, OK: err == nil, Text: result.Text,
				Microcents: result.Microcents}
			if err != nil {
				view.Error = err.Error()
			}
			v.Selftest = append(v.Selftest, view)
		}
	}
	e := json.NewEncoder(u.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// try sends one request of the self test.
func (r report) try(ctx context.Context, s connect.Shape) (connect.Answer, error) {
	to := r.site.public[0]
	result, err := connect.Ask(ctx, to.url, r.trial.key, s, clientTo(to.dial).Do)
	if err == nil && result.Microcents == 0 {
		err = whyFree(ctx, r.engine, result.ID)
	}
	return result, err
}

// firstLink is the link by which the first admin comes in; "" where there is one, or no portal. What keeps it from
// being made is no reason not to serve.
func (u *upRun) firstLink(ctx context.Context, r report) string {
	g, people := r.engine.Current(), r.engine.People()
	if people == nil || g == nil || g.Config.Portal == nil {
		return ""
	}
	v, err := admin.FirstLink(ledger.WithActor(ctx, admin.LocalActor()+" via up"), people, g.Config.Portal)
	if err != nil {
		fmt.Fprintf(u.err, gateway.Own("Making the link for the first admin of the portal: %v; `fareway gateway portal "+
			"first` tries again.\n"), err)
		return ""
	}
	if v.Path == "" {
		return ""
	}
	return cmp.Or(v.URL, r.site.public[0].url) + v.Path
}

// printPortal prints where the portal is, and how the first admin comes in.
func (u *upRun) printPortal(ctx context.Context, w io.Writer, r report) {
	if link := u.firstLink(ctx, r); link != "" {
		fmt.Fprintf(w, "\nThe portal has no admin yet. Whoever opens this within a day becomes one, once:\n\n%s\n", link)
	}
}

// printListening prints one line for each public address, and nothing else: it is for scripts. The link for the first
// admin is a secret, which `portal first` prints.
func (u *upRun) printListening(r report) error {
	s := r.site
	for _, e := range s.public {
		if _, err := fmt.Fprintf(u.out, "listening on %s\n", e.url); err != nil {
			return err
		}
	}
	u.warnListen(s)
	return nil
}

// warnListen says so when the Caddyfile was changed so that --listen or --admin has no effect.
func (u *upRun) warnListen(s *site) {
	if u.admin != "" && u.admin != s.admin {
		fmt.Fprintf(u.err, "--admin %s has no effect: %s does not import %s in its option fareway.\n", u.admin, s.file,
			adminFile)
	}
	_, port, _ := net.SplitHostPort(u.listen)
	if !u.listenSet || port == "0" {
		return
	}
	for _, address := range s.listen {
		if _, p, _ := net.SplitHostPort(address); p == port {
			return
		}
	}
	fmt.Fprintf(u.err, "--listen %s has no effect: %s names its addresses itself.\n", u.listen, s.file)
}

// printAll prints what a person needs to use the gateway, and sends the self test on the way.
func (u *upRun) printAll(ctx context.Context, r report) error {
	w, public := u.out, r.site.public[0]
	fmt.Fprintln(w)
	for _, e := range r.site.public {
		fmt.Fprintf(w, "Fareway is listening on %s\n", e.url)
	}
	u.warnListen(r.site)
	if len(r.made) > 0 {
		fmt.Fprintf(w, "New in %s: %s\n", r.data, strings.Join(r.made, ", "))
	}

	fmt.Fprintf(w, "\nOne request in each shape, and a streamed one, sent to %s:\n\n", public.url)
	failed := false
	for _, s := range connect.Shapes {
		result, err := r.try(ctx, s)
		printResult(w, s, result, err)
		failed = failed || err != nil
	}
	account, err := r.engine.Store().Account(ctx, r.trial.account.ID)
	if err != nil {
		return fmt.Errorf("reading the trial balance: %w", err)
	}
	fmt.Fprintf(w, "\nAccount %s has %s, less %s for usage\nthat is not debited yet.\n",
		account.Name, human.Credits(account.Balance.Credits), human.Cents(account.Balance.Accrued))
	if failed {
		printFailure(w, r)
	}
	printUse(w, public.url, r.trial.key)
	u.printPortal(ctx, w, r)
	printFiles(w, r.data)
	printPath(w)
	fmt.Fprintf(w, "\nCtrl-C stops it: running requests finish and are charged first.\n")
	caddy.OnExit(func(context.Context) { fmt.Fprintln(w, "\nStopped.") })
	return nil
}

// tellEnd says what the end of the gateway waits for, once that has begun.
func tellEnd(w io.Writer, e *engine.Engine) {
	<-e.Leaving()
	if running, until := e.WaitsFor(); running > 0 {
		fmt.Fprintf(w, "\nStopping: waiting for %s, until %s at most. Ctrl-C once more ends\nthem now, free of charge.\n",
			human.Count(int64(running), "running request"), until.Format(time.TimeOnly))
	}
}

// whyFree is why a request that was free should not have been: a route served it that has a price, and nobody knows
// how much it did.
func whyFree(ctx context.Context, e *engine.Engine, request string) error {
	record, err := e.Store().Request(ctx, request)
	if err != nil {
		return fmt.Errorf("reading what request %s cost: %w", request, err)
	}
	for _, a := range record.Attempts {
		if a.Outcome != ledger.Failed && a.Outcome != ledger.NotMade && !a.Price.Equal(config.Price{}) {
			return fmt.Errorf("it costs nothing, though route %s has a price", a.Route)
		}
	}
	return nil
}

// replyWidth is what fits beside the path in 80 columns.
const replyWidth = 54

func printResult(w io.Writer, s connect.Shape, r connect.Answer, err error) {
	if err != nil {
		fmt.Fprintf(w, "  %-22s  FAILED: %v\n", s.Name(), err)
		return
	}
	line, _, _ := strings.Cut(strings.TrimSpace(r.Text), "\n")
	if text := []rune(line); len(text) > replyWidth {
		line = string(text[:replyWidth-3]) + "..."
	}
	fmt.Fprintf(w, "  %-22s  %s\n  %-22s  %s microcents = %s\n", s.Name(), line, "", human.Thousands(r.Microcents),
		human.Cents(r.Microcents))
}

// routeFailures say how routes failed that have not served since.
func routeFailures(e *engine.Engine) (lines []string) {
	g := e.Current()
	if g == nil {
		return nil
	}
	for i := range g.Config.Routes {
		name := g.Config.Routes[i].Name
		if f := e.LastFailure(name); f.Text != "" {
			lines = append(lines, "route "+name+": "+f.Text)
		}
	}
	return lines
}

func printFailure(w io.Writer, r report) {
	fmt.Fprintf(w, "\nThe self test has failed. The gateway goes on running; look at\n\n")
	if r.trial.account.State != ledger.Active {
		fmt.Fprintf(w, gateway.Own("  account %s: it is %s; `fareway gateway account activate %s` changes that\n"),
			r.trial.account.Name, r.trial.account.State, r.trial.account.Name)
	}
	for _, line := range routeFailures(r.engine) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, gateway.Own("  fareway gateway status --data %s\n  %s/fareway.log\n  %s\n  %s\n"), r.data, r.data,
		r.site.config, r.site.file)
}

// printUse prints what works as pasted.
func printUse(w io.Writer, url, key string) {
	fmt.Fprintf(w, `
Try it:

curl %[1]s/v1/chat/completions -H 'Authorization: Bearer %[2]s' -d '{"model":"service/auto",`+
		`"messages":[{"role":"user","content":"Hello!"}]}'

An OpenAI client:

export OPENAI_BASE_URL=%[1]s/v1
export OPENAI_API_KEY=%[2]s

An Anthropic client:

export ANTHROPIC_BASE_URL=%[1]s
export ANTHROPIC_AUTH_TOKEN=%[2]s
`, url, key)
}

// printPath says how the commands are called by their name, where a shell does not find this program by it.
func printPath(w io.Writer) {
	own, err := os.Executable()
	if err != nil {
		return
	}
	if line := pathLine(own, gateway.Program()); line != "" {
		fmt.Fprintf(w, "\nTo call its commands, as in `%s gateway status`:\n\n%s\n", gateway.Program(), line)
	}
}

// pathLine makes a shell find the executable by its name; "" where it does.
func pathLine(own, name string) string {
	if found, err := exec.LookPath(name); err == nil {
		a, errA := os.Stat(found)
		b, errB := os.Stat(own)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return ""
		}
	}
	return `export PATH="` + filepath.Dir(own) + `:$PATH"`
}

func printFiles(w io.Writer, data string) {
	fmt.Fprintf(w, `
Files in %s:

  gateway.hcl   what it offers: put your upstream and its prices here
  Caddyfile     where it listens: host names, HTTPS, proxies
  fareway.log   what happens, with a line for each request
  trial.key     the key above
`, data)
}
