package provider

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/wire"
)

const childWaits = "FAREWAY_TEST_PROVIDER_WAITS"

func TestMain(m *testing.M) {
	if os.Getenv(childWaits) != "" {
		fmt.Println("here")
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent's end of it says when
		fmt.Println("still here")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSignalsBeforeServe: what a service manager or an operator sends to all processes of a gateway ends none of its
// providers, also of those that have not come to Serve.
func TestSignalsBeforeServe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   []string
		lives bool
	}{
		"of a gateway": {[]string{wire.CookieKey + "=" + wire.CookieValue}, true},
		"by hand":      {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.Command(os.Args[0])
			child.Env = append(append(os.Environ(), childWaits+"=1"), c.env...)
			stdin, err := child.StdinPipe()
			require.NoError(t, err)
			stdout, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			t.Cleanup(func() { _ = child.Process.Kill() })
			out := bufio.NewReader(stdout)
			_, err = out.ReadString('\n')
			require.NoError(t, err)
			// SIGTERM first, which no parent (nohup, say) has told the child to ignore.
			for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP, os.Interrupt} {
				require.NoError(t, child.Process.Signal(signal))
				if !c.lives {
					break
				}
			}
			require.NoError(t, stdin.Close())
			text, _ := io.ReadAll(out)
			if c.lives {
				require.Equal(t, "still here\n", string(text))
			}
			require.Equal(t, c.lives, child.Wait() == nil)
		})
	}
}
