package human

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", -999: "-999", 1000: "1,000", -1000: "-1,000", 123_456: "123,456", 1_002_003: "1,002,003",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		require.Equal(t, want, Thousands(n))
	}
}

func TestAmountsOfAllSizes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-9,223,372,036,854.775808", Exact(math.MinInt64))
	require.Equal(t, "9,223,372,036,854.775807", Exact(math.MaxInt64))
	require.Equal(t, "-0.000001", Exact(-1))
	require.Equal(t, "-9,223,372,036,854,775,808 credits (-US$92,233,720,368,547,758.08)", Credits(math.MinInt64))
}
