// Package wire carries endpoints over the plugin protocol. It is for the SDK, its test suite and the host.
package wire

import (
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/proto"
)

// ToProto is nil for none.
func ToProto(e *endpoint.Endpoint) *proto.Endpoint {
	if e == nil {
		return nil
	}
	out := &proto.Endpoint{
		Dialect: string(e.Dialect), Url: e.URL, Proxy: e.Proxy, Refuses: e.Refuses, AlwaysStream: e.AlwaysStream,
		AddressSetting: e.Settings.Address, KeySetting: e.Settings.Key,
		ConnectTimeoutMs: e.Timeouts.Connect.Milliseconds(), FirstByteTimeoutMs: e.Timeouts.FirstByte.Milliseconds(),
		WholeReplyTimeoutMs: e.Timeouts.Whole.Milliseconds(),
		IdleTimeoutMs:       e.Timeouts.Idle.Milliseconds(), CacheControl: e.CacheControl,
		ThinkingBudget: e.ThinkingBudget, ThinkingLevel: e.ThinkingLevel, ReturnReasoning: e.ReturnReasoning,
		LostCall: e.LostCall, StrictTools: e.StrictTools, Http2: e.HTTP2,
		References: e.References, ReferenceHeader: e.ReferenceHeader, Timings: e.Timings,
	}
	if !e.Expires.IsZero() {
		out.ExpiresMs = e.Expires.UnixMilli()
	}
	if e.TLS != (endpoint.TLS{}) {
		out.Tls = &proto.TLS{Ca: e.TLS.CA, Certificate: e.TLS.Certificate, Key: e.TLS.Key, ServerName: e.TLS.ServerName}
	}
	for _, h := range e.Headers {
		out.Headers = append(out.Headers, &proto.Header{Name: h.Name, Value: h.Value})
	}
	return out
}

// FromProto is nil for none. Nothing of it is checked.
func FromProto(e *proto.Endpoint) *endpoint.Endpoint {
	if e == nil {
		return nil
	}
	t := e.GetTls()
	out := &endpoint.Endpoint{
		Dialect: endpoint.Dialect(e.GetDialect()), URL: e.GetUrl(), Proxy: e.GetProxy(), Refuses: e.GetRefuses(),
		AlwaysStream: e.GetAlwaysStream(), CacheControl: e.GetCacheControl(),
		ThinkingBudget: e.ThinkingBudget, ThinkingLevel: e.GetThinkingLevel(),
		ReturnReasoning: e.GetReturnReasoning(), LostCall: e.GetLostCall(), StrictTools: e.GetStrictTools(),
		HTTP2: e.GetHttp2(), References: e.GetReferences(), ReferenceHeader: e.GetReferenceHeader(), Timings: e.GetTimings(),
		TLS: endpoint.TLS{
			CA: t.GetCa(), Certificate: t.GetCertificate(), Key: t.GetKey(), ServerName: t.GetServerName(),
		},
		Settings: endpoint.Settings{Address: e.GetAddressSetting(), Key: e.GetKeySetting()},
		Timeouts: endpoint.Timeouts{
			Connect: milliseconds(e.GetConnectTimeoutMs()), FirstByte: milliseconds(e.GetFirstByteTimeoutMs()),
			Whole: milliseconds(e.GetWholeReplyTimeoutMs()), Idle: milliseconds(e.GetIdleTimeoutMs()),
		},
	}
	if ms := e.GetExpiresMs(); ms != 0 {
		out.Expires = time.UnixMilli(ms)
	}
	for _, h := range e.GetHeaders() {
		out.Headers = append(out.Headers, endpoint.Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return out
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
