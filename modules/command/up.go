package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
)

// defaultListen is where `up` listens: on this machine only.
const defaultListen = "127.0.0.1:8484"

// upRun is one run of `gateway up`.
type upRun struct {
	target
	listen     string
	listenSet  bool // --listen was given
	noSelftest bool
	output

	free     net.Listener  // keeps the port that port 0 has become until Caddy listens on it
	written  files.Changes // taken back where the gateway does not start
	out, err io.Writer
}

func upCommand() *cobra.Command {
	u := new(upRun)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Starts a gateway, with all it needs to try it",
		Long: `Starts a gateway in the foreground, with all it needs to try it.

In the data folder it writes a commented Caddyfile and gateway.hcl where there
are none, and never changes them; --listen and --admin are kept in files of
their own beside them, until it is told something else. Where it cannot start,
none of these files has changed. It makes the account "trial" with
1,000 credits and a key, which it keeps in trial.key, sends itself one request
in each of the three shapes and a streamed one, and shows how to use it. Done again, it finds all
that and goes on with it.

Its log is fareway.log in the data folder. SIGTERM or Ctrl-C ends it: running
requests finish and are charged first, within drain_timeout, and it says how many
it waits for. A second Ctrl-C ends them at once, each with an error at its end
and free of charge; a third waits for nothing.`,
		Example: "  fareway gateway up\n  fareway gateway up --listen 127.0.0.1:9000 --data ./data --no-selftest\n" +
			"  fareway gateway up --json --listen 127.0.0.1:0 --no-selftest",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.listenSet = cmd.Flags().Changed("listen")
			u.out, u.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := u.start(cmd.Context()); err != nil {
				return err
			}
			select {} // until Caddy ends the process at a signal
		},
	}
	cmd.Flags().StringVar(&u.listen, "listen", defaultListen,
		"the public address `HOST:PORT`; port 0 takes a free one, and without it the last one counts")
	cmd.Flags().BoolVar(&u.noSelftest, "no-selftest", false, "send no requests; print only where it listens")
	u.addDataFlag(cmd)
	cmd.Flags().BoolVar(&u.json, "json", false, "print one JSON object when it serves, and what people read on stderr")
	cmd.Flags().StringVar(&u.admin, "admin", "", "one more `ADDRESS` for the admin API: host:port, with TLS and a token, "+
		"or unix//path")
	return cmd
}

// start brings the gateway up and says so. Where it cannot, the files are as they were: one that serves elsewhere
// takes what is in them at its next reload.
func (u *upRun) start(ctx context.Context) (err error) {
	caddy.OnExit(func(context.Context) { _ = u.written.TakeBack() }) // at a signal, too
	caddy.TrapSignals()
	unlock := func() {}
	defer func() {
		err = errors.Join(err, u.written.TakeBack())
		unlock()
	}()
	s, err := u.starter()
	if err != nil {
		return err
	}
	defer u.giveUpFree()
	if unlock, err = u.lockFolder(s.Data); err != nil {
		return err
	}
	if err := u.checkNotRunning(s.Data); err != nil {
		return err
	}
	made, err := s.write(&u.written)
	if err != nil {
		return err
	}
	if err := s.setEnv(); err != nil {
		return err
	}
	site, err := readSite(filepath.Join(s.Data, caddyFile))
	if err != nil {
		return err
	}
	if err := u.checkPorts(ctx, site); err != nil {
		return err
	}
	e, err := u.load(ctx, site)
	if err != nil {
		return err
	}
	u.written.Keep()
	unlock()
	unlock = func() {}
	u.giveUpFree()
	t, err := prepareTrial(ctx, e, s.Data)
	if err != nil {
		return err
	}
	go tellEnd(u.people(), e)
	r := report{site: site, trial: t, engine: e, data: s.Data, made: made}
	if u.json {
		return u.printJSON(ctx, r)
	}
	if u.noSelftest {
		return u.printListening(r)
	}
	return u.printAll(ctx, r)
}

// starter turns the flags into what the files are made from.
func (u *upRun) starter() (starter, error) {
	data, err := u.dir()
	if err != nil {
		return starter{}, err
	}
	host, port, err := net.SplitHostPort(u.listen)
	if err != nil {
		return starter{}, fmt.Errorf("--listen %q: write host:port, as in %s, or :8484 for all interfaces", u.listen,
			defaultListen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return starter{}, fmt.Errorf("--listen %q: the port is a number up to 65535, as in %s", u.listen, defaultListen)
	}
	if port == "0" {
		if u.free, err = freePort(host); err != nil {
			return starter{}, err
		}
		port = portOf(u.free.Addr().String())
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	s := starter{Data: data, Bind: host, Port: port, Admin: u.admin, SetListen: u.listenSet, SetAdmin: u.admin != ""}
	path, err := gateway.MakeSocketPath(data, gateway.AdminSocket)
	if err != nil {
		return starter{}, err
	}
	s.Socket = gateway.OwnerOnly(path)
	if u.admin != "" {
		if err := (&admin.Listener{Listen: u.admin}).Validate(); err != nil {
			return starter{}, fmt.Errorf("--admin: %w", err)
		}
	}
	return s, nil
}

// lockFolder makes the data folder and keeps other starts from it until this one serves, or has taken back what it
// wrote: they would take each other's files for their own. Where a folder cannot be locked, it does not.
func (u *upRun) lockFolder(data string) (unlock func(), err error) {
	for {
		if err := u.checkDataDir(data); err != nil {
			return func() {}, err
		}
		before, err := os.Stat(data)
		if err != nil {
			return func() {}, fmt.Errorf("looking at the data folder: %w", err)
		}
		unlock, err := admin.LockFolders([]string{data})
		if err != nil {
			unlock = func() {}
		}
		if after, gone := os.Stat(data); gone == nil && (err != nil || os.SameFile(before, after)) {
			return unlock, nil
		}
		unlock() // the other one has failed, and taken its folder back
	}
}

// checkNotRunning refuses a folder that a gateway runs on, unless that hands the folder over, before anything is
// written into it.
func (u *upRun) checkNotRunning(data string) error {
	there := target{data: data}
	if file := filepath.Join(data, caddyFile); isThere(file) {
		there.config = file // it may have its ledger elsewhere
	}
	place, err := there.place()
	if err != nil {
		return nil // whoever reads the files next says what is wrong with them
	}
	file := stores.File(place.Ledger)
	if err := file.CheckUnlocked(); errors.Is(err, ledger.ErrLocked) && !file.IsOffered() {
		return wayOut(there, err)
	}
	return nil
}

// wayOut says what can be done where a gateway runs: there is more than one reason to type `up` once more.
func wayOut(there target, locked error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var status admin.Status
	c, err := admin.NewClient(there.data, "")
	if err != nil || c.Call(ctx, "GET", "/fareway/status", nil, &status) != nil {
		return fmt.Errorf("a gateway runs on %s already, and nothing was changed: %w", there.data, locked)
	}
	const stop = "stop it first (Ctrl-C where it runs, or kill %d)"
	f := status.FailedLoad
	if f != nil && slices.ContainsFunc(f.Diagnostics, config.Diagnostic.UnsetVariable) {
		return fmt.Errorf("a gateway runs on %s already (process %d), and nothing was changed: %s needs a variable of the "+
			"environment that it was started without, so "+stop+" and start it again where that is set", there.data, status.PID,
			status.Config, status.PID)
	}
	return fmt.Errorf("a gateway runs on %s already (process %d), and nothing was changed: it takes %s as soon as that "+
		"is saved, and `fareway gateway status --data %s` says what serves; for other addresses, a new program or other "+
		"variables of the environment "+stop+"; for a second gateway choose another folder with --data", there.data,
		status.PID, status.Config, there.data, status.PID)
}

// isUp reports whether a process was started by this command.
func isUp(args []string) bool { return len(args) > 2 && args[1] == "gateway" && args[2] == "up" }

// checkDataDir makes the data folder and sees whether it can be written.
func (u *upRun) checkDataDir(data string) error {
	err := u.written.MakeFolder(data, 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(data, ".writable.*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("the data folder %s cannot be written: %w; choose another with --data", data, err)
	}
	return nil
}

// load runs the site's configuration in this process. It looks at the HCL first, by itself: so people see all that
// is wrong in it, with the lines.
func (u *upRun) load(ctx context.Context, s *site) (*engine.Engine, error) {
	// Logs wait until the configuration says where they go; those of a start that failed are not shown.
	caddy.BufferedLog()

	_, diags := engine.CheckConfig(ctx, s.config, slog.New(slog.DiscardHandler))
	if len(diags.All()) > 0 {
		if err := diags.Write(u.err, human.IsTerminal(u.err)); err != nil {
			return nil, err
		}
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("%s has errors: correct them and start again", s.config)
	}
	if err := caddy.Load(s.json, true); err != nil {
		return nil, ownWords(err)
	}
	caddy.SetLastConfig(s.file, "caddyfile", reloadSite)
	app, err := caddy.ActiveContext().App("fareway")
	if err != nil {
		return nil, err
	}
	return app.(*gateway.App).Engine(), nil
}

// ownWords leaves out what Caddy says around an error of our app: it makes a text of it, several layers deep.
func ownWords(err error) error {
	for _, around := range [...]string{"provision fareway: ", "provisioning admin router module admin.api.fareway: ",
		"fareway app module: start: "} {
		if _, own, ok := strings.Cut(err.Error(), around); ok {
			return errors.New(own)
		}
	}
	return fmt.Errorf("starting Caddy: %w", err)
}

// reloadSite is what SIGUSR1 does.
func reloadSite(file, _ string) error {
	s, err := readSite(file)
	if err != nil {
		return err
	}
	return caddy.Load(s.json, true)
}
