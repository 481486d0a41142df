//go:build linux

package main_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// collector is an OTLP receiver (HTTP, protobuf).
type collector struct {
	url string

	mu      sync.Mutex
	all     bytes.Buffer // whatever was received
	spans   []span
	metrics map[string]map[string]bool // by name: the labels of its points
}

// span is one as it was received; ids are in hex.
type span struct {
	service, name, trace, id, parent string
	attributes                       map[string]string
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{metrics: make(map[string]map[string]bool)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unzipped
		}
		if err := c.receive(r.URL.Path, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) receive(path string, body io.Reader) error {
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Write(b)
	switch path {
	case "/v1/traces":
		var request collecttrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &request); err != nil {
			return err
		}
		for _, resource := range request.GetResourceSpans() {
			service := ""
			for _, a := range resource.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					service = a.GetValue().GetStringValue()
				}
			}
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					one := span{service: service, name: s.GetName(), trace: hex.EncodeToString(s.GetTraceId()),
						id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
						attributes: make(map[string]string)}
					for _, a := range s.GetAttributes() {
						one.attributes[a.GetKey()] = strings.Trim(fmt.Sprint(a.GetValue()), " ")
					}
					c.spans = append(c.spans, one)
				}
			}
		}
	case "/v1/metrics":
		var request collectmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(b, &request); err != nil {
			return err
		}
		for _, resource := range request.GetResourceMetrics() {
			for _, scope := range resource.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					if c.metrics[m.GetName()] == nil {
						c.metrics[m.GetName()] = make(map[string]bool)
					}
					for _, point := range m.GetHistogram().GetDataPoints() {
						labels := ""
						for _, a := range point.GetAttributes() {
							labels += " " + a.GetKey() + "=" + a.GetValue().GetStringValue()
						}
						c.metrics[m.GetName()][strings.TrimSpace(labels)] = true
					}
				}
			}
		}
	}
	return nil
}

// awaitSpan waits for a span of a trace.
func (c *collector) awaitSpan(t *testing.T, trace, service, name string) (found span) {
	t.Helper()
	eventually(t, func() (bool, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if s.trace == trace && s.name == name && s.service == service {
				found = s
				return true, ""
			}
		}
		return false, fmt.Sprintf("no span %q of %s in %v", name, service, c.spans)
	})
	return found
}

func (c *collector) received(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.all.Bytes(), []byte(text))
}

// traced is a site whose requests have spans.
const traced = `{
	fareway {
		config "{$FAREWAY_DATA}/gateway.hcl"
		data "{$FAREWAY_DATA}"
	}
	admin "{$FAREWAY_ADMIN}"
	persist_config off
	grace_period 6m
	auto_https off
	log {
		output file "{$FAREWAY_DATA}/fareway.log"
	}
}

http://127.0.0.1:{$FAREWAY_PORT} {
	bind 127.0.0.1
	tracing {
		span request
	}
	fareway
}
`

// startTraced starts a gateway that sends to the collector.
func startTraced(t *testing.T, c *collector, hcl string) *gateway {
	t.Helper()
	g := &gateway{Dir: t.TempDir(), ended: make(chan struct{}), Env: []string{
		"OTEL_SERVICE_NAME=the-gateway", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url,
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200"}}
	files{"gateway.hcl": hcl, "Caddyfile": traced}.write(t, g.Dir)
	g.launch(t, "")
	g.awaitStart(t)
	t.Cleanup(func() {
		if !t.Failed() && !g.hasEnded() {
			g.stop(t)
		}
	})
	return g
}

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
	private     = "a-prompt-that-nobody-else-reads"
)

// TestTraces: a client's trace goes on in the gateway's request, in its attempt, in the provider's process where that
// makes the call, and to the upstream where the operator wants it to be told. What was said is nowhere.
func TestTraces(t *testing.T) {
	t.Parallel()
	for _, carry := range []string{"host", "process"} {
		t.Run(carry, func(t *testing.T) {
			t.Parallel()
			up, c := upstream.Start(t, upstream.Options{}), startCollector(t)
			g := startTraced(t, c, "telemetry {\n  metrics = true\n  providers = true\n  upstreams = true\n}\n"+
				strings.Replace(hcl(up), `carry  = "host"`, fmt.Sprintf("carry = %q", carry), 1))
			key := g.account(t, 100_000_000)
			request := shapes[0].request(t, g.URL, key, private, true)
			request.Header.Set("Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01")
			do(t, http.DefaultClient, request).whole(t, shapes[0])

			server := c.awaitSpan(t, clientTrace, "the-gateway", "request")
			require.Equal(t, clientSpan, server.parent)
			require.Contains(t, server.attributes["fareway.route"], "standard")
			require.Contains(t, server.attributes["fareway.microcents"], ":")
			attempt := c.awaitSpan(t, clientTrace, "the-gateway", "chat standard")
			require.Equal(t, server.id, attempt.parent)
			for name, value := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
				"gen_ai.request.model": "standard", "gen_ai.response.finish_reasons": "stop",
				"gen_ai.usage.output_tokens": ":", "gen_ai.response.time_to_first_chunk": ":"} {
				require.Contains(t, attempt.attributes[name], value, name)
			}
			require.NotContains(t, attempt.attributes, "gen_ai.system", "its old name")
			last := attempt
			if carry == "process" {
				last = c.awaitSpan(t, clientTrace, "fareway-provider-openai", "generate")
				require.Equal(t, attempt.id, last.parent)
			}
			records := up.Records()
			require.Equal(t, "00-"+clientTrace+"-"+last.id+"-01", records[len(records)-1].Header.Get("Traceparent"))

			for _, name := range []string{"gen_ai.client.token.usage", "gen_ai.client.operation.duration",
				"gen_ai.client.operation.time_to_first_chunk", "fareway_requests_total", "fareway_ledger_duration_seconds"} {
				eventually(t, func() (bool, string) {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.metrics[name] != nil, "no metric " + name
				})
			}
			c.mu.Lock()
			require.True(t, c.metrics["gen_ai.client.token.usage"]["gen_ai.operation.name=chat gen_ai.provider.name=openai "+
				"gen_ai.request.model=standard gen_ai.token.type=input"], c.metrics["gen_ai.client.token.usage"])
			c.mu.Unlock()
			require.False(t, c.received(private))
			g.stop(t)
			require.False(t, c.received(private), "at the end")
		})
	}
}

// TestContentIsTracedWhereTheOperatorAsks, and an upstream is told nothing where he doesn't, nor is a plugin.
func TestContentIsTracedWhereTheOperatorAsks(t *testing.T) {
	t.Parallel()
	up, c := upstream.Start(t, upstream.Options{}), startCollector(t)
	g := startTraced(t, c, "telemetry {\n  content = true\n}\n"+
		strings.Replace(hcl(up), `carry  = "host"`, `carry = "process"`, 1))
	key := g.account(t, 100_000_000)
	request := shapes[0].request(t, g.URL, key, private, true)
	request.Header.Set("Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01")
	do(t, http.DefaultClient, request).whole(t, shapes[0])
	attempt := c.awaitSpan(t, clientTrace, "the-gateway", "chat standard")
	require.Contains(t, attempt.attributes["gen_ai.input.messages"], private)
	require.Contains(t, attempt.attributes["gen_ai.output.messages"], "assistant")
	records := up.Records()
	require.Empty(t, records[len(records)-1].Header.Get("Traceparent"))
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.metrics)
	for _, s := range c.spans {
		require.NotContains(t, s.service, "fareway-provider")
	}
}
