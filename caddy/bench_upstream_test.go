package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// benchUpstream is the command bench-upstream: a model service that costs little, and answers every request
// with one of two replies.
func benchUpstream() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-upstream:", err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	fmt.Fprintln(os.Stderr, "bench-upstream:", http.Serve(l, http.HandlerFunc(benchReply)))
	os.Exit(1)
}

const (
	benchDelta  = " word"
	benchDeltas = 100
	// What a prompt asks for: a delta every 10 ms, or one and then nothing.
	benchPaced  = "One word at a time, please."
	benchIdle   = "Begin, and wait."
	benchAnswer = "The keeper kept the book for forty years, and in all of them he missed one night, which he wrote " +
		"down as well: " +
		"the night when the fog was so thick that he could hear the ships and could not see them."

	benchChunkHead = `data: {"id":"chatcmpl-bench0123456789abcdef","object":"chat.completion.chunk",` +
		`"created":1700000000,"model":"bench","system_fingerprint":"fp_0123456789","choices":[`
	benchUsage = `"usage":{"prompt_tokens":280,"completion_tokens":100,"total_tokens":380}`
)

func benchReply(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_,
			_ = fmt.Fprintf(w,
			`{"id":"chatcmpl-bench0123456789abcdef","object":"chat.completion","created":1700000000,"model":"bench",`+
				`"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],%s}`, benchAnswer,
			benchUsage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := w.(http.Flusher)
	var pace <-chan time.Time
	if bytes.Contains(body, []byte(benchPaced)) {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		pace = ticker.C
	}
	for range benchDeltas {
		_, _ = io.WriteString(w, benchChunkHead+
			`{"index":0,"delta":{"content":"`+benchDelta+`"},"logprobs":null,"finish_reason":null}]}`+"\n\n")
		flusher.Flush()
		if pace != nil {
			<-pace
		}
		if bytes.Contains(body, []byte(benchIdle)) {
			<-r.Context().Done()
			return
		}
	}
	_, _ = io.WriteString(w, benchChunkHead+`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`+"\n\n")
	_, _ = io.WriteString(w, benchChunkHead+`],`+benchUsage+"}\n\ndata: [DONE]\n\n")
}
