package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatchdogBites: the service manager hears nothing more once what is checked hangs.
func TestWatchdogBites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told int
		hangs, end := make(chan struct{}), make(chan struct{})
		checks := 0
		go func() {
			defer func() { _ = recover() }() // its end
			feed(time.Second, func() {
				if checks++; checks == 4 {
					close(hangs)
					<-end
					panic("ended")
				}
			}, func() { told++ })
		}()
		<-hangs
		synctest.Wait()
		require.Equal(t, 3, told)
		time.Sleep(time.Hour) //nolint:forbidigo // synctest's clock: it takes no time
		require.Equal(t, 3, told)
		close(end)
	})
}
