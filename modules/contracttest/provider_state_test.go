package contracttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// providerStates are the states that fareway_provider_state tells of.
func (s *service) providerStates(t testing.TB) []string {
	t.Helper()
	return s.ones(t, "fareway_provider_state")
}

// ones are the labels of a metric that are not zero, each of which is one.
func (s *service) ones(t testing.TB, metric string) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	var states []string
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			if value == 0 {
				continue // what can be counted is there from the start
			}
			require.EqualValues(t, 1, value)
			states = append(states, strings.Join(labels, " "))
		}
	}
	return states
}

// A provider that was replaced and serves is ready, whatever its old process still does, and what is gone from the
// configuration is in no state.
func TestTheStateOfAReplacedProvider(t *testing.T) {
	t.Parallel()
	s := startScripted(t, setup{Providers: []string{"spare"}})
	require.Equal(t, []string{"spare ready", "up ready"}, s.providerStates(t))
	c := s.rich(t)
	c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), upstream.Text("lo")))
	l := c.Open(t, shapes[0])
	l.Start(shapes[0])
	require.Equal(t, "Hel", l.Text(shapes[0]))

	s.Reload(func(hcl string) string {
		before, _, _ := strings.Cut(hcl, "provider \"spare\"")
		_, after, _ := strings.Cut(hcl, "route ")
		return strings.Replace(before, "base_url =", "always_stream = true\n    base_url =", 1) + "route " + after
	})
	require.Len(t, s.processes(t, "up"), 2)
	require.Equal(t, []string{"up ready"}, s.providerStates(t), "while the old process drains")
	s.Upstream.Open(c.Mark)
	l.End()
	s.Log.Await(t, func(line map[string]any) bool { return line["msg"] == "request" })
	require.Equal(t, []string{"up ready"}, s.providerStates(t))
}

// No reply breaks while its provider is replaced ten times.
func TestReplacingAProviderBreaksNoReply(t *testing.T) {
	t.Parallel()
	s := startScripted(t, setup{Carry: "process", Settings: `first_byte_timeout = "10m"`})
	const times = 10
	var callers [times + 1]*caller
	var replies [times + 1]*liveReply
	for i := range replies {
		c := s.rich(t)
		c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), upstream.Text("lo")))
		sh := shapes[i%len(shapes)]
		callers[i], replies[i] = c, c.Open(t, sh)
		replies[i].Start(sh)
		require.Equal(t, "Hel", replies[i].Text(sh))
		if i < times {
			s.Reload(func(hcl string) string {
				return strings.Replace(hcl, fmt.Sprintf("%dm", 10+i), fmt.Sprintf("%dm", 11+i), 1)
			})
			require.Len(t, s.processes(t, "up"), i+2)
		}
	}
	for i, l := range replies {
		sh := shapes[i%len(shapes)]
		s.Upstream.Open(callers[i].Mark)
		l.End()
		v := judge(t, sh, l)
		require.True(t, v.Complete)
		require.Equal(t, "Hello", v.Text)
	}
}

// Metrics tell why a provider's process was started again, also after it was replaced.
func TestTheFailuresOfAProvider(t *testing.T) {
	t.Parallel()
	s := startScripted(t, setup{Providers: []string{"spare"}})
	require.Empty(t, s.ones(t, "fareway_provider_failures_total"))
	s.kill(t, "up")
	require.Equal(t, []string{"crash up"}, s.ones(t, "fareway_provider_failures_total"))
	s.Reload(func(hcl string) string {
		return strings.Replace(hcl, "base_url =", "always_stream = true\n    base_url =", 1)
	})
	require.Equal(t, []string{"crash up"}, s.ones(t, "fareway_provider_failures_total"))
}
