package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/command/bundle"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
)

// collection is what a bundle is filled with.
type collection struct {
	to       target
	request  string // that it is about, "" for none
	names    bool
	profiles bool
	logLines int

	bundle *bundle.Bundle
	data   string
	config string // the Caddyfile that was named, "" for none
	client *admin.Client
	status *admin.Status // nil: nobody answers
}

// answerPatience is how long one question may take: a gateway that hangs is among the reasons for a bundle.
const answerPatience = 20 * time.Second

// collect fills a bundle with all that can be had. Only what says where the gateway is can fail: of the rest it is said
// that it is missing.
func (c *collection) collect(cmd *cobra.Command, b *bundle.Bundle) (err error) {
	c.bundle, c.config = b, c.to.config
	if c.data, err = c.to.dir(); err != nil {
		if c.data = c.folderWithout(); c.data == "" {
			return err
		}
		b.Miss("what "+filepath.Base(c.config)+" says; the data folder is taken to be "+c.data, err)
		c.to.config, c.to.data = "", c.data
	}
	if c.client, err = c.to.client(); err != nil {
		return err
	}
	c.learnSecrets()
	c.add("version.json", "versions of this program and of what it is made of", programView())
	status := new(admin.Status)
	gone := c.ask(cmd, "status.json", "what runs, routes, providers, backups, certificates, ledger", "/fareway/status",
		status)
	if gone == nil {
		c.status = status
	}
	c.add("system.json", "the machine: kernel, processors, memory, limits, disk", readSystem(c.data, c.localPID()))
	c.collectConfiguration(cmd)
	for _, one := range [...]struct {
		file, what, path string
		out              any
	}{
		{"plugins.json", "providers' programs and processes, and why they failed last", "/fareway/plugins",
			new([]admin.Plugin)},
		{"routes.json", "what was learned of each route", "/fareway/routes", new([]admin.LearnedRoute)},
		{"requests.json", "requests that have ended last, never what they said", "/fareway/requests", new(admin.Recent)},
		{"history.json", "which configurations were in force, and what brought them", "/fareway/configurations",
			new([]admin.Configuration)},
		{"nodes.json", "the gateways that share the ledger", "/fareway/nodes", new(admin.Nodes)},
	} {
		switch {
		case gone != nil:
			b.Miss(one.file, gone)
			continue
		case one.file == "nodes.json" && status.Ledger == nil:
			continue // it has none
		}
		_ = c.ask(cmd, one.file, one.what, one.path, one.out) // it has been noted
	}
	c.collectMetrics(cmd, gone)
	c.collectLedger(cmd)
	if c.request != "" {
		c.collectRequest(cmd, gone)
	}
	c.collectLog()
	c.collectProfiles(cmd, gone)
	return nil
}

// folderWithout is the data folder where the Caddyfile that should name it can't be read: its own folder, where a
// gateway has been, or else the usual one; "" for none.
func (c *collection) folderWithout() string {
	if !isThere(c.config) {
		return "" // another one was meant
	}
	for _, folder := range []string{filepath.Dir(c.config), c.to.data} {
		abs, err := filepath.Abs(folder)
		if err == nil && (isThere(filepath.Join(abs, hclFile)) || isThere(filepath.Join(abs, "admin.token"))) {
			return abs
		}
	}
	return ""
}

// add adds a value.
func (c *collection) add(file, what string, v any) {
	if err := c.bundle.AddJSON(file, what, v); err != nil {
		c.bundle.Miss(file, err)
	}
}

// ask adds what the gateway says.
func (c *collection) ask(cmd *cobra.Command, file, what, path string, out any) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), answerPatience)
	defer cancel()
	if err := c.client.Call(ctx, "GET", path, nil, out); err != nil {
		c.bundle.Miss(file, err)
		return err
	}
	c.add(file, what, out)
	return nil
}

// secretName finds variables whose values are secret, by their names.
var secretName = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|credential|auth|dsn|database_url|cookie`)

// learnSecrets learns what is known to be secret: it is taken out wherever it is.
func (c *collection) learnSecrets() {
	for _, file := range []string{"admin.token", "metrics.token", "trial.key", "admin.key"} {
		if content, err := os.ReadFile(filepath.Join(c.data, file)); err == nil {
			c.bundle.Secret(strings.TrimSpace(string(content)), file)
		}
	}
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); secretName.MatchString(name) && !isPlainValue(value) {
			c.bundle.Secret(value, "value of "+name)
		}
	}
	if host, err := os.Hostname(); err == nil {
		c.bundle.Machine(host)
	}
	c.bundle.Path(c.data, "DATA")
	if home, err := os.UserHomeDir(); err == nil {
		c.bundle.Path(home, "~")
	}
}

// localPID is the gateway's process, 0 where it does not run on this machine, as far as is known.
func (c *collection) localPID() int {
	if c.status == nil || c.client.Network != "unix" {
		return 0
	}
	return c.status.PID
}

// learnEnvironment looks into the gateway's environment, where this user may: what is secret there is not in that of
// the shell. It returns how variables are found in it, nil where it cannot be seen.
func (c *collection) learnEnvironment() func(name string) (string, bool) {
	if c.localPID() == 0 {
		return nil
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.localPID()))
	if err != nil {
		return nil // it is another user's, or another machine's
	}
	all := map[string]string{}
	for variable := range strings.SplitSeq(string(content), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		if all[name] = value; secretName.MatchString(name) && !isPlainValue(value) {
			c.bundle.Secret(value, "value of "+name)
		}
	}
	return func(name string) (string, bool) {
		value, ok := all[name]
		return value, ok
	}
}

// isPlainValue reports whether a value is a path or a short number: no secret, and found in much that is none.
func isPlainValue(value string) bool {
	if len(value) < 6 || len(value) < 8 && strings.Trim(value, "0123456789.") == "" {
		return true
	}
	if !filepath.IsAbs(value) {
		return false
	}
	_, err := os.Lstat(value) // a secret may begin with a slash, too
	return err == nil
}

// programView is this program, and what it is made of.
func programView() any {
	v := struct {
		Version  string   `json:"version"`
		Text     string   `json:"text"`
		Compiler string   `json:"go"`
		Commit   string   `json:"commit"`
		Modules  []string `json:"modules"`
	}{Version: gateway.Version(), Commit: gateway.Commit()}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Compiler = info.GoVersion
		for _, m := range info.Deps {
			v.Modules = append(v.Modules, m.Path+" "+m.Version)
		}
	}
	return v
}

// collectConfiguration adds the files of the configuration as they may be shown, and what is wrong with them.
func (c *collection) collectConfiguration(cmd *cobra.Command) {
	defer c.collectCaddyfile() // of itself: what is wrong with the one does not hide the other
	hcl := ""
	if c.status != nil {
		hcl = c.status.Config
	}
	if hcl == "" {
		var err error
		if hcl, err = c.to.hcl(c.data); err != nil {
			hcl = filepath.Join(c.data, hclFile)
			c.bundle.Miss("which configuration the Caddyfile names; "+hcl+" is taken", err)
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 3*answerPatience)
	defer cancel()
	read := func(try bool) (*config.Config, *config.Diagnostics) {
		return engine.ReadConfigAs(ctx, hcl, slog.New(slog.DiscardHandler), try, c.learnEnvironment(), func(value string) {
			if !isPlainValue(value) {
				c.bundle.Secret(value, "value from outside")
			}
		})
	}
	cfg, diags := read(false)
	// What serves need not be tried, which starts its providers.
	if c.status == nil || cfg == nil || cfg.Hash != c.status.ConfigHash {
		cfg, diags = read(true)
	}
	c.add("check.json", "what `gateway check` says of the file as it is saved", struct {
		OK          bool                `json:"ok"`
		File        string              `json:"file"`
		Diagnostics []config.Diagnostic `json:"diagnostics"`
	}{!diags.HasErrors(), hcl, append([]config.Diagnostic{}, diags.All()...)})
	shown := diags.Shown()
	if err := diags.Err(); len(shown) == 0 && err != nil {
		c.bundle.Miss("configuration", err)
	}
	for i, f := range shown {
		name := filepath.Base(f.Path)
		if i > 0 {
			name = fmt.Sprintf("%d-%s", i, name)
		}
		var hidden map[string]int
		if f.Hidden > 0 {
			hidden = map[string]int{"values that nobody has said to be harmless": f.Hidden}
		}
		c.bundle.AddShown("config/"+name, "the configuration as it is saved, with its lines' numbers", f.Text, hidden)
	}
	if cfg == nil && c.status != nil && c.status.FailedLoad != nil {
		c.bundle.Miss("the configuration that serves", errors.New("the saved one is refused; `gateway history` and `gateway "+
			"diff` show the one before"))
	}
}

// caddyfile is the Caddyfile of the gateway, "" where that is not known.
func (c *collection) caddyfile() string {
	if c.config != "" {
		return c.config
	}
	if file := filepath.Join(c.data, caddyFile); isThere(file) {
		return file
	}
	if c.status != nil { // as it was started
		for i, arg := range c.status.Command {
			switch value, ok := strings.CutPrefix(arg, "--config="); {
			case ok:
				return value
			case arg == "--config" && i+1 < len(c.status.Command):
				return c.status.Command[i+1]
			}
		}
	}
	return ""
}

func (c *collection) collectMetrics(cmd *cobra.Command, gone error) {
	const file = "metrics.txt"
	if gone != nil {
		c.bundle.Miss(file, gone)
		return
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), answerPatience)
	defer cancel()
	text, err := readMetricsText(ctx, c.client)
	if err != nil {
		c.bundle.Miss(file, err)
		return
	}
	c.bundle.AddShown(file, "all metrics, as Prometheus reads them", string(text), nil)
}

// collectLedger adds how the ledger stands, from its file where no gateway runs.
func (c *collection) collectLedger(cmd *cobra.Command) {
	var v struct {
		Pruned any           `json:"pruned,omitempty"`
		Aside  []admin.Aside `json:"undecided"`
		Kept   int           `json:"checkpoints"`
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), answerPatience)
	defer cancel()
	asked := *cmd
	asked.SetContext(ctx)
	err := c.to.read(&asked, func(client *admin.Client) error {
		v.Aside, v.Kept = []admin.Aside{}, 0
		if err := client.Call(ctx, "GET", "/fareway/ledger/pruned", nil, &v.Pruned); err != nil {
			return err
		}
		err := admin.ReadList(ctx, client, "/fareway/ledger/spool", nil, func(item admin.Aside) error {
			item.Settlement = nil
			if len(v.Aside) < mostAside {
				v.Aside = append(v.Aside, item)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return client.Lines(ctx, "/fareway/ledger/checkpoints", nil, func([]byte) error {
			v.Kept++
			return nil
		})
	})
	if err != nil {
		c.bundle.Miss("ledger.json", err)
		return
	}
	c.add("ledger.json", "what waits for a decision in the spool, what was pruned, checkpoints", v)
}

// mostAside is how many undecided items a bundle has.
const mostAside = 200

// collectRequest adds all that is known of a request.
func (c *collection) collectRequest(cmd *cobra.Command, gone error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), answerPatience)
	defer cancel()
	asked := *cmd
	asked.SetContext(ctx)
	record := new(admin.Request)
	err := c.to.read(&asked, func(client *admin.Client) error {
		return client.Call(ctx, "GET", "/fareway/usage/"+url.PathEscape(c.request), nil, record)
	})
	if err != nil {
		c.bundle.Miss("request/record.json", err)
	} else {
		c.add("request/record.json", "the request: attempts, tokens, prices, each step of its charge", record)
	}
	if gone != nil {
		c.bundle.Miss("request/explanation.json", gone)
		return
	}
	_ = c.ask(cmd, "request/explanation.json", "why it was routed so, by numbers and never by its text",
		"/fareway/explain/"+url.PathEscape(c.request), new(admin.Explanation)) // it has been noted
}

// collectProfiles adds what the runtime tells, where that was asked for and Caddy's admin endpoint has it.
func (c *collection) collectProfiles(cmd *cobra.Command, gone error) {
	if !c.profiles {
		return
	}
	for _, one := range [...]struct{ file, what, path string }{
		{"profiles/goroutines.txt", "what each goroutine does", "/debug/pprof/goroutine?debug=2"},
		{"profiles/heap.pprof", "what takes memory (go tool pprof)", "/debug/pprof/heap"},
	} {
		if gone != nil {
			c.bundle.Miss(one.file, gone)
			continue
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), answerPatience)
		content, err := c.client.Bytes(ctx, one.path)
		cancel()
		switch {
		case err != nil:
			c.bundle.Miss(one.file, fmt.Errorf("only Caddy's own admin endpoint has it: %w", err))
		case strings.HasSuffix(one.file, ".txt"):
			c.bundle.AddShown(one.file, one.what, string(content), nil)
		default:
			c.bundle.AddBytes(one.file, one.what, content)
		}
	}
}

// lastLines are the last lines of a text, at most so many.
func lastLines(content []byte, most int) [][]byte {
	lines := bytes.SplitAfter(content, []byte("\n"))
	lines = slices.DeleteFunc(lines, func(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 })
	return lines[max(0, len(lines)-most):]
}
