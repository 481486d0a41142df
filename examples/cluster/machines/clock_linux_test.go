package machines_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/examples/cluster/machines"
)

// TestMain lets the test binary be a process that says what time it is, for each line that it is sent.
func TestMain(m *testing.M) {
	if os.Getenv("TELL_TIME") == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), int64(time.Since(began).Seconds()))
	}
}

func TestShiftClock(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TELL_TIME=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	tell := func() (now, elapsed int64) {
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		first, second, _ := strings.Cut(lines.Text(), " ")
		now, err = strconv.ParseInt(first, 10, 64)
		require.NoError(t, err)
		elapsed, err = strconv.ParseInt(second, 10, 64)
		require.NoError(t, err)
		return now, elapsed
	}
	for _, by := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		require.NoError(t, machines.ShiftClock(cmd.Process.Pid, by))
		now, elapsed := tell()
		require.InDelta(t, time.Now().Add(by).Unix(), now, 60, "its clock is off by %s", by)
		require.Less(t, elapsed, int64(60), "time goes on as it did")
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
