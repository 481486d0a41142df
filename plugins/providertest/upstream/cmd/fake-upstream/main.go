// Command fake-upstream is the fake model service as a process of its own, for tests that kill the gateway
// and for benchmarks.
//
//	fake-upstream --listen 127.0.0.1:0 --script replies.json --log served.jsonl
//
// It prints its address, http://127.0.0.1:PORT, as the only line of its standard output once it listens, and
// runs until SIGTERM or an interrupt. The log has a line of JSON for each request (upstream.Record), synced to
// the disk before the request's connection is given back.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fake-upstream:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "the address to listen on")
	scriptFile := flag.String("script", "", "a file with a script (upstream.Script); without it prompts are said again")
	logFile := flag.String("log", "", "a file to append a line of JSON to for each request")
	keep := flag.Int("keep", 0, "how many of the latest records stay in memory; 0: all of them")
	key := flag.String("api-key", "", "the key that requests must show; without it none is asked for")
	service := flag.String("service", "", "the service whose ways it has: "+strings.Join(upstream.Services(), ", "))
	cache := flag.Bool("cache", false, "keep the beginnings of prompts, and say in usage what was known")
	flag.Parse()
	if *service != "" && !slices.Contains(upstream.Services(), *service) {
		return fmt.Errorf("there is no service %q; there are %s", *service, strings.Join(upstream.Services(), ", "))
	}

	// stop is called by a log that cannot be written: going on would make a comparison with it wrong.
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer release()

	options := upstream.Options{Keep: *keep, APIKey: *key, Service: *service, Cache: *cache}
	if *logFile != "" {
		log, err := openLog(*logFile)
		if err != nil {
			return err
		}
		defer log.close()
		options.OnEnd = func(rec upstream.Record) {
			if err := log.append(rec); err != nil {
				stop(err)
			}
		}
	}
	var script upstream.Script
	if *scriptFile != "" {
		b, err := os.ReadFile(*scriptFile)
		if err != nil {
			return fmt.Errorf("reading the script: %w", err)
		}
		if script, err = upstream.ParseScript(b); err != nil {
			return err
		}
	}
	server, err := upstream.Listen(*listen, options)
	if err != nil {
		return err
	}
	defer server.Close()
	server.SetScript(script)
	fmt.Println(server.URL())

	<-ctx.Done()
	if err := context.Cause(ctx); logFailed(err) {
		return err
	}
	return nil
}

// logError is a log that could not be written.
type logError struct{ error }

func logFailed(err error) bool {
	_, failed := errors.AsType[logError](err)
	return failed
}

// servedLog is the file of --log.
type servedLog struct {
	mu   sync.Mutex
	file *os.File
}

func openLog(path string) (*servedLog, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return &servedLog{file: file}, nil
}

// append writes a line and waits until it is on the disk.
func (l *servedLog) append(rec upstream.Record) error {
	line, err := json.Marshal(rec)
	if err != nil {
		return logError{fmt.Errorf("encoding a line of the log: %w", err)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return logError{fmt.Errorf("writing the log: %w", err)}
	}
	if err := l.file.Sync(); err != nil {
		return logError{fmt.Errorf("syncing the log: %w", err)}
	}
	return nil
}

func (l *servedLog) close() { _ = l.file.Close() } // every line is on the disk already
