package machines

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
)

// The addresses of the network: the program that made it, and the host, if it is connected.
const (
	prefix      = "10.77.0."
	OwnAddress  = prefix + "1"
	hostAddress = prefix + "254"
)

// Network is the bridge that joins machines. The program itself is on it.
type Network struct{}

// NewNetwork makes the bridge. The program has entered (Enter).
func NewNetwork() (*Network, error) {
	lines := []string{
		"link set lo up",
		"link add bridge type bridge",
		"address add " + OwnAddress + "/24 dev bridge",
		"link set bridge up",
	}
	if exec.Command("ip", "link", "show", "host").Run() == nil {
		lines = append(lines, "link set host master bridge", "link set host up")
	}
	for _, line := range lines {
		if err := run("ip", strings.Fields(line)...); err != nil {
			return nil, fmt.Errorf("making the network: %w", err)
		}
	}
	return &Network{}, nil
}

// Machine is a network namespace with an address, and what runs in it.
type Machine struct {
	Name, Address string
	Dir           string // for what its programs keep and log

	mu         sync.Mutex
	blocked    map[rule]bool
	generation atomic.Int64 // goes up when the machine is killed
}

// rule is a direction of a link that is cut.
type rule struct{ direction, peer string }

// Add makes a machine. number is the last part of its address.
func (*Network) Add(name string, number int, dir string) (*Machine, error) {
	m := &Machine{Name: name, Address: fmt.Sprint(prefix, number), Dir: dir, blocked: map[rule]bool{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, line := range []string{
		"netns add " + name,
		"link add " + name + " type veth peer name eth0 netns " + name,
		"link set " + name + " master bridge up",
		"-n " + name + " link set lo up",
		"-n " + name + " address add " + m.Address + "/24 dev eth0",
		"-n " + name + " link set eth0 up",
	} {
		if err := run("ip", strings.Fields(line)...); err != nil {
			return nil, fmt.Errorf("making the machine %s: %w", name, err)
		}
	}
	return m, nil
}

// Cut drops what the machine sends to another; what comes from there still arrives.
func (m *Machine) Cut(to *Machine) error { return m.setCut("output", "daddr", to.Address) }

// Isolate drops everything from and to others: the cable is out.
func (m *Machine) Isolate() error {
	return errors.Join(m.setCut("output", "daddr", prefix+"0/24"), m.setCut("input", "saddr", prefix+"0/24"))
}

// setCut adds a rule to those of the machine, which are put in force as a whole.
func (m *Machine) setCut(direction, side, peer string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocked[rule{direction, side + " " + peer}] = true
	var b strings.Builder
	b.WriteString("table inet cut\ndelete table inet cut\ntable inet cut {\n")
	for _, d := range []string{"input", "output"} {
		fmt.Fprintf(&b, "  chain %s {\n    type filter hook %s priority 0;\n", d, d)
		for r := range m.blocked {
			if r.direction == d {
				fmt.Fprintf(&b, "    %s eth0 ip %s drop\n", map[string]string{"input": "iifname", "output": "oifname"}[d], r.peer)
			}
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return m.setRules(b.String())
}

func (m *Machine) setRules(rules string) error {
	cmd := exec.Command("nsenter", m.enter("nft", "-f", "-")...)
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cutting links of %s: %w: %s", m.Name, err, out)
	}
	return nil
}

// Slow lets the machine send so many kilobits a second: a full or broken cable. It loses packets when more is sent.
func (m *Machine) Slow(kilobits int) error {
	return run("nsenter", m.enter("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate",
		fmt.Sprintf("%dkbit", kilobits), "burst", "3000", "latency", "800ms")...)
}

// Heal mends all links of the machine.
func (m *Machine) Heal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.blocked)
	_ = exec.Command("nsenter", m.enter("tc", "qdisc", "delete", "dev", "eth0", "root")...).Run() // there may be none
	return m.setRules("table inet cut\ndelete table inet cut\n")
}

func (m *Machine) enter(args ...string) []string {
	return append([]string{"--net=/run/netns/" + m.Name, "--"}, args...)
}
