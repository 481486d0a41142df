package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/stores"
)

// Subject is what is looked at: a gateway on a data folder, running or not.
type Subject struct {
	Data      string // the data folder, absolute
	Caddyfile string // "" where none is known
	HCL       string
	Version   string // of this program

	// Client asks the gateway that runs. Running is nil where one answers, and says otherwise why none does.
	Client  *admin.Client
	Running error
	Status  *admin.Status // nil where none answers
	// Elsewhere says why the gateway's machine and files cannot be looked at from here, "" where they can. Its process
	// may be in a container, whose numbers are others: then NoProcess is set.
	Elsewhere string
	NoProcess bool
	// Flags lead a command that people are told of to this gateway; "" for its data folder's.
	Flags string

	Config      *config.Config      // nil where the HCL file cannot be used
	Diagnostics *config.Diagnostics // of reading it
	// Env is the environment of the gateway: of its process, of its unit, or of this program. EnvOf says which.
	Env   func(name string) (string, bool)
	EnvOf string
	// EnvHidden says why variables of it cannot be seen, "" where all can.
	EnvHidden string

	Site      *Site // nil where the Caddyfile cannot be read
	SiteError error

	// Offline reads the ledger where no gateway runs; OfflineError says why that cannot be.
	Offline      admin.Offline
	OfflineError error

	// URLs are public addresses that are looked at besides those that the Caddyfile has, as clients reach them.
	URLs []string
	// Bills are what upstreams have asked for, in US dollars, by provider, for the time from Since until Until.
	Bills        map[string]float64
	Since, Until time.Time
	// Patience is for how long a silent reply is waited for through the public address; 0: none is asked for.
	Patience time.Duration

	// What stands in for the machine, in tests. The zero values are the machine's.
	Now       func() time.Time
	Proc      string         // "/proc"
	Cgroups   string         // "/sys/fs/cgroup"
	Systemctl string         // the program
	Resolver  *net.Resolver  // net.DefaultResolver
	User      int            // of this program
	SiteRoots *x509.CertPool // whom the sites' clients trust; nil: whom this machine does

	run     context.Context //nolint:containedctx // of the whole run: what several checks wait for ends with none of them
	disk    func(dir string) (disk, error)
	metrics sync.Once
	series  map[string]*dto.MetricFamily
	noSerie error

	upstreams sync.Once
	looked    engine.Looked

	network sync.Once
	wrong   map[string]func(r *result)

	database sync.Once
	server   stores.Inspection
	noServer error
}

// Site is what a Caddyfile says.
type Site struct {
	JSON   []byte     // as Caddy reads it
	Public []Endpoint // where clients reach the gateway
	Listen []string   // every TCP address
	Admin  string     // of the gateway's own admin listener, "" for none
	Health string     // of its health listener, "" for the socket
}

// Endpoint is an address of the gateway's.
type Endpoint struct {
	URL  string // without a slash at the end
	Dial string // host:port to connect to from this machine
}

// Fill sets what was left out.
func (s *Subject) Fill() {
	if s.run == nil {
		s.run = context.Background()
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Proc == "" {
		s.Proc = "/proc"
	}
	if s.Cgroups == "" {
		s.Cgroups = "/sys/fs/cgroup"
	}
	if s.disk == nil {
		s.disk = statDisk
	}
	if s.Systemctl == "" {
		s.Systemctl = "systemctl"
	}
	if s.Resolver == nil {
		s.Resolver = net.DefaultResolver
	}
	if s.Env == nil {
		s.Env, s.EnvOf = os.LookupEnv, "this shell"
	}
}

// farther are the checks that look at nothing of the gateway's machine, of those whose group does.
var farther = []string{"clock", "providers"}

// nearer are those that do, of the other groups.
var nearer = []string{"in-force", "logs", "ports", "udp-buffers"}

// isAway says why a check cannot look at what is elsewhere, "" where it can.
func (s *Subject) isAway(c *Check) string {
	here := slices.Contains([]string{"machine", "files", "processes"}, c.About) && !slices.Contains(farther, c.Name)
	if here || slices.Contains(nearer, c.Name) {
		return s.Elsewhere
	}
	return ""
}

// TakeProcess finds out whether the process that a gateway says to be is one of this machine's. By TCP it may be any
// machine's; by a socket it is in a container whose files are here.
func (s *Subject) TakeProcess(byTCP bool) {
	text, err := os.ReadFile(filepath.Join(s.Proc, strconv.Itoa(s.Status.PID), "cmdline"))
	args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	if err == nil && slices.Equal(args, s.Status.Command) {
		return
	}
	s.NoProcess = true
	if byTCP {
		s.Elsewhere = "the gateway is on another machine, or in a container: give the command there"
	}
}

// lacks says what is missing for a check, "" for nothing.
func (s *Subject) lacks(needs need) string {
	switch {
	case needs&gatewayRuns != 0 && s.Status == nil:
		return "no gateway answers: " + s.Running.Error()
	case needs&gatewayRests != 0 && s.Status != nil:
		return "a gateway runs, and this is of one that does not"
	case needs&configured != 0 && s.Config == nil:
		if s.Elsewhere != "" {
			return s.Elsewhere
		}
		return "the configuration cannot be read (see the check `configuration`)"
	case needs&sited != 0 && s.Site == nil && s.SiteError != nil:
		return "the Caddyfile cannot be read: " + s.SiteError.Error()
	case needs&sited != 0 && s.Site == nil:
		return "no Caddyfile is known: name it with --config"
	case needs&process != 0 && s.pid() == 0:
		if s.NoProcess {
			return "the gateway's process is not to be seen from here: it may be in a container"
		}
		return "there is no process of a gateway to look at"
	case needs&process != 0:
		if _, err := os.Stat(s.proc("")); err != nil {
			return "its process cannot be looked at: " + err.Error()
		}
	}
	return ""
}

// pid is of the gateway that runs, 0 for none.
func (s *Subject) pid() int {
	if s.Status == nil || s.NoProcess {
		return 0
	}
	return s.Status.PID
}

// proc is a file of the gateway's process.
func (s *Subject) proc(name string) string { return filepath.Join(s.Proc, strconv.Itoa(s.pid()), name) }

// isPublic reports whether clients from elsewhere reach the gateway: then more has to be right than on a laptop.
func (s *Subject) isPublic() bool {
	if len(s.URLs) > 0 {
		return true
	}
	if s.Site == nil {
		return false
	}
	for _, e := range s.Site.Public {
		if !isLocal(hostOf(e.Dial)) || !isLocal(urlHost(e.URL)) {
			return true
		}
	}
	for _, address := range s.Site.Listen {
		if !isLocal(hostOf(address)) {
			return true
		}
	}
	return false
}

// unlessPublic is a severity that counts only where others reach the gateway.
func (s *Subject) unlessPublic(severity Severity) Severity {
	if s.isPublic() {
		return severity
	}
	return Note
}

// isLocal reports whether a host is this machine alone. "" and the unspecified addresses are every interface.
func isLocal(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.Unmap().IsLoopback()
}

// isPrivate reports whether a host is reached from a private network at most.
func isPrivate(host string) bool {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return isLocal(host) || err == nil && (a.Unmap().IsPrivate() || a.IsLinkLocalUnicast())
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// metric is the sum of a metric's samples whose labels are these; false where there is none, or no gateway.
func (s *Subject) metric(ctx context.Context, name string, labels ...string) (sum float64, ok bool) {
	s.each(ctx, name, func(m *dto.Metric, value float64) {
		for i := 0; i+1 < len(labels); i += 2 {
			if label(m, labels[i]) != labels[i+1] {
				return
			}
		}
		sum, ok = sum+value, true
	})
	return sum, ok
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// each gives the samples of a counter or a gauge.
func (s *Subject) each(ctx context.Context, name string, f func(m *dto.Metric, value float64)) {
	family := s.families(ctx)[name]
	for _, m := range family.GetMetric() {
		switch {
		case m.Counter != nil:
			f(m, m.Counter.GetValue())
		case m.Gauge != nil:
			f(m, m.Gauge.GetValue())
		case m.Untyped != nil:
			f(m, m.Untyped.GetValue())
		}
	}
}

// families are the metrics of the gateway that runs; none where they cannot be had.
func (s *Subject) families(context.Context) map[string]*dto.MetricFamily {
	s.metrics.Do(func() {
		if s.Client == nil {
			s.noSerie = errors.New("no gateway answers")
			return
		}
		var text bytes.Buffer
		ctx, cancel := context.WithTimeout(s.run, Patience/2)
		defer cancel()
		s.noSerie = s.Client.Lines(ctx, "/fareway/metrics", nil, func(line []byte) error {
			text.Write(line)
			return nil
		})
		if s.noSerie == nil {
			parser := expfmt.NewTextParser(model.UTF8Validation)
			s.series, s.noSerie = parser.TextToMetricFamilies(&text)
		}
	})
	return s.series
}

// needMetrics skips a check where they cannot be had.
func (s *Subject) needMetrics(ctx context.Context, r *result) bool {
	if s.families(ctx) == nil {
		r.skip("the metrics cannot be read: %v", s.noSerie)
		return false
	}
	return true
}

// quantile is the lower bound of the bucket that one of a histogram with these labels is in, for buckets are wide: it
// is that much or more. With count 0 the histogram has nothing.
func (s *Subject) quantile(ctx context.Context, q float64, name, labelName, labelValue string) (value float64,
	count uint64) {
	for _, m := range s.families(ctx)[name].GetMetric() {
		if m.Histogram == nil || labelName != "" && label(m, labelName) != labelValue {
			continue
		}
		count = m.Histogram.GetSampleCount()
		rank, below := q*float64(count), 0.0
		for _, b := range m.Histogram.GetBucket() {
			if float64(b.GetCumulativeCount()) >= rank {
				break
			}
			below = b.GetUpperBound()
		}
		return below, count
	}
	return 0, 0
}

// ask asks the gateway that runs or, with none, the ledger itself. Where neither can be asked it says so.
func (s *Subject) ask(ctx context.Context, r *result, question func(c *admin.Client) error) bool {
	var err error
	switch {
	case s.Status != nil:
		err = question(s.Client)
	case s.OfflineError != nil:
		err = s.OfflineError
	default:
		err = s.Offline.Read(ctx, question)
	}
	if err != nil {
		r.skip("%v", err)
	}
	return err == nil
}

// flags lead a command that people are told of to the same gateway.
func (s *Subject) flags() string {
	if s.Flags != "" {
		return s.Flags
	}
	if s.Status != nil && s.Status.Data != "" {
		return " --data " + quote(s.Status.Data)
	}
	return " --data " + quote(s.Data)
}

// quote is a word for a shell.
func quote(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@%+=,", c)
	}
	if word != "" && !strings.ContainsFunc(word, func(c rune) bool { return !plain(c) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// command is a command of ours, ready to be pasted.
func (s *Subject) command(format string, a ...any) string {
	return "fareway gateway " + fmt.Sprintf(format, a...) + s.flags()
}
