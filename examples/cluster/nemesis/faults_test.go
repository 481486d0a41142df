//go:build linux && (nemesis || soak)

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/examples/cluster"
	"github.com/fareway/fareway/examples/cluster/machines"
)

// fault is something that breaks. do breaks it, says which machine it was, and returns what mends it.
type fault struct {
	name  string
	lasts time.Duration
	do    func(context.Context, *nemesis) (undo func() error, what string, err error)
	alone bool // there is one of what it breaks
	// first is how long do itself keeps everybody from being answered, before what the cluster mends by itself.
	first time.Duration
}

// lease is how long a gateway may admit requests since it last told the database that it lives.
const lease = 15 * time.Second

// faults are what can happen, in the order of the cycles: CI has time for the first of them.
var faults = []fault{
	{name: "kill -9 of a gateway's machine", lasts: 3 * time.Second, do: onOne(gateways, kill)},
	{name: "kill -9 of the primary's machine", lasts: 25 * time.Second, do: onOne(primary, kill)},
	{name: "pause of a gateway", lasts: lease + 5*time.Second, do: onOne(gateways, pause)},
	{name: "cut", lasts: 8 * time.Second, do: cut(gateways, primary)},
	{name: "kill -9 of Redis's primary and its Sentinel", lasts: 6 * time.Second, do: onOne(cachePrimary, kill)},
	{name: "cut", lasts: 8 * time.Second, do: cut(primary, gateways)},
	{name: "kill -9 of providers", lasts: time.Second, do: onOne(gateways, killProcess("gateway provider"))},
	{name: "clock an hour ahead", lasts: 5 * time.Second, do: onOne(gateways, shiftClock(time.Hour))},
	{name: "kill -9 of HAProxy", lasts: time.Second, do: onOne(balancer, killProcess("haproxy")), alone: true},
	{name: "pause of the primary's machine", lasts: 25 * time.Second, do: onOne(primary, pause)},

	{name: "kill -9 of a gateway's process", lasts: 2 * time.Second, do: onOne(gateways, killProcess("fareway run"))},
	{name: "kill -9 of PostgreSQL's processes, not of Patroni", lasts: 15 * time.Second,
		do: onOne(primary, killProcess("bin/postgres"))},
	{name: "pause of providers", lasts: 5 * time.Second, do: onOne(gateways, pauseProcess("gateway provider"))},
	{name: "pause of PostgreSQL's processes, not of Patroni", lasts: 15 * time.Second,
		do: onOne(primary, pauseProcess("postgres"))},
	{name: "kill -9 of the synchronous standby's machine", lasts: 12 * time.Second, do: onOne(standby, kill)},
	{name: "pause of a standby's machine", lasts: 12 * time.Second, do: onOne(standby, pause)},
	{name: "pause of Redis's primary and its Sentinel", lasts: 8 * time.Second, do: onOne(cachePrimary, pause)},
	{name: "pause of HAProxy", lasts: 5 * time.Second, do: onOne(balancer, pause), alone: true},
	{name: "kill -9 of the model service", lasts: 2 * time.Second, do: onOne(modelService, kill), alone: true},
	{name: "pause of the model service", lasts: 5 * time.Second, do: onOne(modelService, pause), alone: true},
	{name: "kill -9 of a member of etcd", lasts: 5 * time.Second, do: onOne(coordinators, kill)},
	{name: "pause of a member of etcd", lasts: 10 * time.Second, do: onOne(coordinators, pause)},
	{name: "clock an hour behind", lasts: 5 * time.Second, do: onOne(gateways, shiftClock(-time.Hour))},
	{name: "clock of the primary an hour ahead", lasts: 10 * time.Second, do: onOne(primary, shiftClock(time.Hour))},
	{name: "cut", lasts: 8 * time.Second, do: cut(balancer, gateways)},
	{name: "cut", lasts: 8 * time.Second, do: cut(gateways, balancer)},
	{name: "cut", lasts: 8 * time.Second, do: cut(gateways, modelService)},
	{name: "cut", lasts: 8 * time.Second, do: cut(modelService, gateways)},
	{name: "cut", lasts: 8 * time.Second, do: cut(gateways, cachePrimary)},
	{name: "cut", lasts: 8 * time.Second, do: cut(cachePrimary, gateways)},
	{name: "cut", lasts: 12 * time.Second, do: cut(primary, standby)},
	{name: "cut", lasts: 12 * time.Second, do: cut(standby, primary)},
	{name: "cut", lasts: 25 * time.Second, do: cut(primary, coordinators)},
	{name: "cut", lasts: 25 * time.Second, do: cut(coordinators, primary)},
	{name: "isolation of the primary's machine", lasts: 25 * time.Second, do: onOne(primary, isolate)},
	{name: "isolation of a gateway", lasts: lease + 5*time.Second, do: onOne(gateways, isolate)},
	{name: "isolation of Redis's primary", lasts: 8 * time.Second, do: onOne(cachePrimary, isolate)},
	{name: "isolation of a member of etcd", lasts: 8 * time.Second, do: onOne(coordinators, isolate)},
	{name: "slow link of a gateway", lasts: 10 * time.Second, do: onOne(gateways, slow)},
	{name: "slow link of the primary", lasts: 10 * time.Second, do: onOne(primary, slow)},
	{name: "slow link of the standby", lasts: 10 * time.Second, do: onOne(standby, slow)},
	{name: "kill -9 of a gateway and of the primary's machine", lasts: 25 * time.Second,
		do: both(onOne(gateways, kill), onOne(primary, kill))},
	{name: "kill -9 of the primary's machine, cut off from its standbys before", lasts: 25 * time.Second, do: killCutOff,
		first: unheard},
	{name: "kill -9 of all gateways", lasts: 2 * time.Second, do: onAll(gateways, kill), alone: true},
	{name: "pause of a gateway, and the primary's machine killed", lasts: 25 * time.Second,
		do: both(onOne(gateways, pause), onOne(primary, kill))},
	{name: "kill -9 of all of PostgreSQL", lasts: 2 * time.Second, do: onAll(databases, kill), alone: true},
}

// role finds the machines that have it at the moment.
type role func(context.Context, *nemesis) ([]*cluster.Node, error)

func gateways(_ context.Context, n *nemesis) ([]*cluster.Node, error)     { return n.Gateways, nil }
func coordinators(_ context.Context, n *nemesis) ([]*cluster.Node, error) { return n.Coordinators, nil }
func databases(_ context.Context, n *nemesis) ([]*cluster.Node, error)    { return n.Databases, nil }
func modelService(_ context.Context, n *nemesis) ([]*cluster.Node, error) {
	return []*cluster.Node{n.Upstream}, nil
}
func balancer(_ context.Context, n *nemesis) ([]*cluster.Node, error) {
	return []*cluster.Node{n.Balancer}, nil
}

func primary(ctx context.Context, n *nemesis) ([]*cluster.Node, error) {
	p, err := n.Primary(ctx)
	return []*cluster.Node{p}, err
}

func standby(ctx context.Context, n *nemesis) ([]*cluster.Node, error) {
	s, err := n.SynchronousStandby(ctx)
	return []*cluster.Node{s}, err
}

func cachePrimary(ctx context.Context, n *nemesis) ([]*cluster.Node, error) {
	p, err := n.CachePrimary(ctx)
	return []*cluster.Node{p}, err
}

// action breaks a machine and returns what mends it.
type action func(*cluster.Node) (undo func() error, err error)

func kill(m *cluster.Node) (func() error, error)    { return m.Start, m.Kill() }
func pause(m *cluster.Node) (func() error, error)   { return m.Resume, m.Pause() }
func isolate(m *cluster.Node) (func() error, error) { return m.Heal, m.Isolate() }

// slow leaves a link of 256 kbit/s; the kernel may not know of delays (netem).
func slow(m *cluster.Node) (func() error, error) { return m.Heal, m.Slow(256) }

func nothing() error { return nil }

// killProcess kills the processes of a program; the machine's service manager starts it again.
func killProcess(line string) action {
	return func(m *cluster.Node) (func() error, error) { return nothing, signalProcess(m, line, unix.SIGKILL) }
}

// pauseProcess stops them for a while.
func pauseProcess(line string) action {
	return func(m *cluster.Node) (func() error, error) { return m.Resume, signalProcess(m, line, unix.SIGSTOP) }
}

func signalProcess(m *cluster.Node, line string, signal unix.Signal) error {
	pids, err := m.Find(line)
	if err == nil && len(pids) == 0 {
		err = fmt.Errorf("there is no process of %s on %s", line, m.Name)
	}
	for _, pid := range pids {
		if e := unix.Kill(pid, signal); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// shiftClock sets the clocks of all that runs on a machine, and puts them right again.
func shiftClock(by time.Duration) action {
	set := func(m *cluster.Node, by time.Duration) error {
		pids, err := m.Running()
		for _, pid := range pids {
			if e := machines.ShiftClock(pid, by); e != nil && unix.Kill(pid, 0) == nil {
				err = errors.Join(err, e)
			}
		}
		return err
	}
	return func(m *cluster.Node) (func() error, error) {
		return func() error { return set(m, 0) }, set(m, by)
	}
}

// onOne does it to one machine of a role.
func onOne(of role, do action) func(context.Context, *nemesis) (func() error, string, error) {
	return func(ctx context.Context, n *nemesis) (func() error, string, error) {
		nodes, err := of(ctx, n)
		if err != nil {
			return nil, "", err
		}
		m := n.pick(nodes)
		undo, err := do(m)
		return undo, named(":", m), err
	}
}

// onAll does it to all machines of a role.
func onAll(of role, do action) func(context.Context, *nemesis) (func() error, string, error) {
	return func(ctx context.Context, n *nemesis) (func() error, string, error) {
		nodes, err := of(ctx, n)
		var undo []func() error
		for _, m := range nodes {
			u, e := do(m)
			undo, err = append(undo, u), errors.Join(err, e)
		}
		return func() error {
			var err error
			for _, u := range undo {
				err = errors.Join(err, u())
			}
			return err
		}, "", err
	}
}

// cut drops what one machine sends to another; the other direction is left.
func cut(from, to role) func(context.Context, *nemesis) (func() error, string, error) {
	return func(ctx context.Context, n *nemesis) (func() error, string, error) {
		senders, err := from(ctx, n)
		if err != nil {
			return nil, "", err
		}
		receivers, err := to(ctx, n)
		if err != nil {
			return nil, "", err
		}
		s := n.pick(senders)
		for _, r := range receivers {
			if len(receivers) == 3 && len(senders) == 1 && receivers[0] == n.Gateways[0] { // one of the gateways only
				r = n.pick(receivers)
				return s.Heal, named(":", s, r), s.Cut(r.Machine)
			}
			err = errors.Join(err, s.Cut(r.Machine))
		}
		return s.Heal, named(":", append([]*cluster.Node{s}, receivers...)...), err
	}
}

// unheard is for how long: under the time-out of the standbys (wal_receiver_timeout).
const unheard = 4 * time.Second

// killCutOff kills the primary's machine when its standbys have not heard of it for a while: what it has acknowledged
// meanwhile, if it has, is lost.
func killCutOff(ctx context.Context, n *nemesis) (func() error, string, error) {
	p, err := n.Primary(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, m := range n.Databases {
		if m != p {
			err = errors.Join(err, p.Cut(m.Machine))
		}
	}
	wait(ctx, unheard)
	undo := func() error { return errors.Join(p.Heal(), p.Start()) }
	return undo, named(":", p), errors.Join(err, p.Kill())
}

// both does two things at once.
func both(first, second func(context.Context, *nemesis) (func() error, string, error)) func(context.Context, *nemesis) (
	func() error, string, error) {
	return func(ctx context.Context, n *nemesis) (func() error, string, error) {
		undoFirst, what, err := first(ctx, n)
		if err != nil {
			return nil, "", err
		}
		undoSecond, more, err := second(ctx, n)
		return func() error { return errors.Join(undoSecond(), undoFirst()) }, what + more, err
	}
}
