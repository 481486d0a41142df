package verify

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Check proves clauses.
type Check struct {
	IDs  []string // of the clauses that it proves, or a part of them
	Does string   // what it does, for people who read a failure
	// Quiet checks compare the account before and after: nothing else may be running meanwhile.
	Quiet bool
	Run   func(*T)
}

// T is one run of one check. Its methods that end the check do so by a panic that the runner knows; they
// must be called on the check's own goroutine.
type T struct {
	*Target
	ctx   context.Context
	notes []string
}

// ending is what a check ended with, other than well.
type ending struct {
	status Status // Fail or Pending
	detail string
}

// Fatalf ends the check: the clause does not hold.
func (t *T) Fatalf(format string, args ...any) { panic(ending{Fail, fmt.Sprintf(format, args...)}) }

// Helper does nothing: checks have no lines to report.
func (*T) Helper() {}

// Pendingf ends the check: the deployment gives no way to see whether the clause holds.
func (t *T) Pendingf(format string, args ...any) {
	panic(ending{Pending, fmt.Sprintf(format, args...)})
}

// Notef adds to the detail of a check that ends well, for what it could not look at.
func (t *T) Notef(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// True fails the check unless ok.
func (t *T) True(ok bool, format string, args ...any) {
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Equal fails the check unless the two are deeply equal. Numbers of JSON are json.Number.
func (t *T) Equal(want, got any, what string) {
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s is %s instead of %s", what, brief(got), brief(want))
	}
}

// finding is how one check ended.
type finding struct {
	check  *Check
	status Status // Pass, Fail or Pending
	detail string
}

// run runs one check. Only a check's own endings are caught.
func (c *Check) run(ctx context.Context, target *Target) (f finding) {
	t := &T{Target: target, ctx: ctx}
	f = finding{check: c, status: Pass}
	defer func() {
		switch e := recover().(type) {
		case nil:
			f.detail = strings.Join(t.notes, "; ")
		case ending:
			f.status, f.detail = e.status, e.detail
			if e.status == Fail && c.Does != "" {
				f.detail = c.Does + ": " + e.detail
			}
		default:
			panic(e)
		}
		f.detail = target.hide(strings.Join(strings.Fields(f.detail), " "))
	}()
	if err := ctx.Err(); err != nil {
		t.Pendingf("the run was ended before")
	}
	c.Run(t)
	return f
}

// memory keeps what several checks look at: a request is sent once, whoever asks first.
type memory struct {
	mu    sync.Mutex
	cells map[string]*cell
}

type cell struct {
	once  sync.Once
	value any
	end   any // the panic that making the value ended with
}

// memo returns the value of this name, and makes it when nobody has. Where making it ended a check, it ends
// every other that asks, in the same way.
func memo[V any](t *T, name string, make func() V) V {
	t.memory.mu.Lock()
	c, ok := t.memory.cells[name]
	if !ok {
		c = new(cell)
		t.memory.cells[name] = c
	}
	t.memory.mu.Unlock()
	c.once.Do(func() {
		defer func() { c.end = recover() }()
		c.value = make()
	})
	if c.end != nil {
		panic(c.end)
	}
	return c.value.(V)
}
