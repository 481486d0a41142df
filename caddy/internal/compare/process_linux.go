package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processes are the target's process and all that descend from it.
func (t target) processes() (all []int) {
	if t.pid == 0 {
		return nil
	}
	all = []int{t.pid}
	for i := 0; i < len(all); i++ {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", all[i]))
		tasks, err1 := os.ReadDir(fmt.Sprintf("/proc/%d/task", all[i]))
		if err != nil || err1 != nil {
			continue // it has ended
		}
		for _, task := range tasks { // a child is its thread's
			of, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", all[i], task.Name()))
			if err == nil && task.Name() != strconv.Itoa(all[i]) {
				children = append(children, of...)
			}
		}
		for id := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(id); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

// cpu is the CPU time, user and system, of all its processes.
func (t target) cpu() (sum time.Duration, err error) {
	for _, pid := range t.processes() {
		// The clock of another process, as clock_getcpuclockid(3) makes its number.
		var used unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &used); err != nil {
			return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
		}
		sum += time.Duration(used.Nano())
	}
	return sum, nil
}

// memory is the proportional set size of all its processes, in KiB.
func (t target) memory() (sum int64, err error) {
	for _, pid := range t.processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		_, after, _ := bytes.Cut(b, []byte("\nPss:"))
		kib, err := strconv.ParseInt(string(bytes.Fields(after)[0]), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib
	}
	return sum, nil
}
