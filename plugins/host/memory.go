package host

import (
	"fmt"
	"strconv"
	"time"
)

const (
	// memoryInterval is how often the memory of a process is looked at that has a bound.
	memoryInterval = time.Second
	// tired is the part of max_memory from which on a process is replaced, in tenths.
	tired = 9
)

// watchMemory bounds the memory of a process and of what it has started. One that comes near to its bound is replaced,
// without harm to its streams; one beyond it is killed.
func (p *Plugin) watchMemory(proc *process) {
	pid, _ := strconv.Atoi(proc.child.ID())
	limit, told := p.spec.MaxMemory, false
	for {
		select {
		case <-p.host.clock.After(memoryInterval):
		case <-proc.child.exited:
			return
		}
		used := memoryOf(pid)
		switch {
		case used > limit:
			proc.condemn(fail(CauseMemory, "it took %s of memory, more than its max_memory of %s", mebibytes(used),
				mebibytes(limit)))
			return
		case used > limit/10*tired && !told:
			told = true
			f := fail(CauseMemory, "it takes %s of memory, and its max_memory is %s; %s", mebibytes(used), mebibytes(limit),
				proc.child.say)
			f.gentle = true
			proc.replace(f)
		}
	}
}

// checkRestMemory refuses a process that takes so much before its first request that it would be replaced, or killed,
// as soon as somebody looks.
func (p *Plugin) checkRestMemory(proc *process) *failure {
	pid, _ := strconv.Atoi(proc.child.ID())
	limit := p.spec.MaxMemory
	used := memoryOf(pid)
	if limit == 0 || used <= limit/10*tired {
		return nil
	}
	return fail(CauseMemory, "it takes %s of memory before its first request, and its max_memory is %s: allow it more, "+
		"such as twice what it takes now", mebibytes(used), mebibytes(limit))
}

// mebibytes is an amount of memory for people.
func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
