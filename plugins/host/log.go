package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxLine is how much of a line of a plugin's output is kept, in bytes.
const maxLine = 16 << 10

// readLines calls each for every line, cut to maxLine, until r ends. It reads everything whatever the
// length: a plugin that writes to a full pipe would hang.
func readLines(r io.Reader, each func(line string)) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			each(strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\uFFFD"))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// A plugin that floods its stderr must not fill the disk and take the time of others: of so many lines at once, and so
// many a second after them, the rest is counted and left out.
const (
	logBurst = 1000
	logRate  = 100
)

// stderrLog logs what a plugin writes to stderr.
type stderrLog struct {
	scrub    *scrubber
	now      func() time.Time
	limit    *rate.Limiter
	left     int  // lines left out since the last one
	panicked bool // the rest is a stack
}

func newStderrLog(s *scrubber) *stderrLog {
	return &stderrLog{scrub: s, now: time.Now, limit: rate.NewLimiter(logRate, logBurst)}
}

// write logs a line, unless there are too many, and returns the message in it. A JSON object with hclog's fields,
// which the SDK and hclog write, keeps its level and attributes.
func (l *stderrLog) write(log *slog.Logger, line string) string {
	if !l.limit.AllowN(l.now(), 1) {
		l.left++
		log = slog.New(slog.DiscardHandler)
	} else {
		l.close(log)
	}
	var fields map[string]any
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &fields) == nil {
		if message, ok := fields["@message"].(string); ok {
			var level slog.Level
			name, _ := fields["@level"].(string)
			if level.UnmarshalText([]byte(name)) != nil {
				level = slog.LevelInfo
			}
			message = l.scrub.clean(message)
			log.Log(context.Background(), level, message, l.attributes(fields)...)
			return message
		}
	}
	if isPanic(line) {
		l.panicked = true
	}
	level := slog.LevelInfo
	if l.panicked {
		level = slog.LevelError
	}
	line = l.scrub.clean(line)
	log.Log(context.Background(), level, line, "from", "stderr")
	return line
}

// close says how many lines were left out.
func (l *stderrLog) close(log *slog.Logger) {
	if l.left > 0 {
		log.Warn("the plugin writes more to stderr than is logged", "lines_left_out", l.left)
		l.left = 0
	}
}

// attributes are the fields of a line of log but for hclog's own, in a steady order.
func (l *stderrLog) attributes(fields map[string]any) []any {
	var names []string
	for name := range fields {
		if !strings.HasPrefix(name, "@") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []any
	for _, name := range names {
		out = append(out, l.scrub.clean(name), l.scrub.cleanValue(fields[name]))
	}
	return append(out, "from", "plugin") // at the end: what a plugin calls so does not count
}

func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// lastWords keeps the end of a plugin's output for the error that says why it died: the last lines, or the
// panic's first ones.
type lastWords struct {
	mu       sync.Mutex
	lines    []string
	panicked bool
}

const maxWords = 5 // lines

func (w *lastWords) add(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.TrimSpace(line) == "" {
		return
	}
	if isPanic(line) && !w.panicked {
		w.panicked, w.lines = true, nil
	}
	if w.panicked && len(w.lines) == maxWords {
		return
	}
	if len(w.lines) == maxWords {
		w.lines = w.lines[1:]
	}
	w.lines = append(w.lines, line[:min(len(line), 512)])
}

// String says what the plugin said, as the end of a sentence.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 0 {
		return "it said nothing"
	}
	return "its last words: " + strings.Join(w.lines, "\n  ")
}
