package reply

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	maxErrorWord  = 48             // bytes of a word that an upstream's code, type or param may be
	maxRetryAfter = 24 * time.Hour // a longer wait is no information

	statusOverloaded   = 529 // of Anthropic
	statusFlexCapacity = 498 // of Groq, whose code says so where it is the capacity
)

// Refusal makes a typed error of an upstream's reply that is not a 2xx: its status, its Retry-After header
// ("" if there is none; seconds or a date, RFC 9110 section 10.2.3) and its body, in whatever form (GAP-126).
func Refusal(status int, retryAfter string, body []byte) *llm.Error {
	s := refusalBody{status: status}
	s.readBody(body)
	e := s.failure()
	e.Status = status
	if (e.Kind == llm.ErrCapacity || e.Kind == llm.ErrQuota) && e.RetryAfter == 0 && !s.daily {
		if wait, ok := Wait(retryAfter, time.Now()); ok {
			e.RetryAfter = max(wait, llm.AtOnce)
		}
	}
	return e
}

// Failure makes a typed error of an error object in a reply that is a 2xx, or in a stream. The object may name a
// status.
func Failure(object jsonview.View) *llm.Error {
	s := refusalBody{}
	s.object(object, maxInner)
	return s.failure()
}

// Exception makes a typed error of one of AWS's, which have a name and a text; status is 0 for one in a stream.
func Exception(status int, name, message string) *llm.Error {
	s := refusalBody{status: status}
	words, text := unwrap(clip(message))
	p := part{words: words, texts: []string{text}}
	if name != "" {
		s.names = []string{name}
		p.words = append(p.words, plain(name))
	}
	s.parts = []part{p}
	return s.failure()
}

// failure decides what is said.
func (s *refusalBody) failure() *llm.Error {
	found := s.decide()
	e := &llm.Error{Kind: found.kind, Basis: found.basis, Status: s.status,
		Message: LogText("the upstream answered with an error", append(s.names, s.param)...)}
	if found.note != "" {
		e.Message += "; " + found.note
	}
	if e.Kind == llm.ErrRejected {
		if setting := s.setting(); setting != "" {
			e.Message += fmt.Sprintf("; it does not take a setting: `unsupported = [%q]` in the route leaves that out", setting)
		}
	}
	if e.Kind == llm.ErrCapacity {
		e.RetryAfter = s.wait
	}
	return e
}

// refused is how services say that they do not take a setting at all.
var refused = regexp.MustCompile(`\b(?:unrecognized|unknown|unsupported|unexpected|extra|not supported|not permitted|` +
	`not allowed|does not support|no longer supported)\b`)

// settings are those that a route can leave out.
var settings = regexp.MustCompile(`\b(?:stream_options|max_tokens|temperature|stop)\b`)

// setting is the setting that is refused, of those that a route can leave out (llm.Restrictions), "" for none.
func (s *refusalBody) setting() string {
	for _, p := range s.parts {
		for _, text := range p.texts {
			if refused.MatchString(normal(text)) {
				return settings.FindString(cmp.Or(s.param, text))
			}
		}
	}
	return ""
}

// finding is what a refusal is about, and how that is known.
type finding struct {
	kind  llm.ErrorKind
	basis llm.Basis
	note  string
}

// decide goes by code, then by wording, then by what is no more than the status, the innermost error first.
func (s *refusalBody) decide() finding {
	if s.coded && s.status >= http.StatusInternalServerError {
		s.status = 0
	}
	if s.daily && statusAllows(s.status, quota) { // of which the service, too, says to try again in seconds
		return finding{quota, llm.ByCode, ""}
	}
	if s.judged && statusAllows(s.status, content) {
		return finding{content, llm.ByCode, ""}
	}
	for _, p := range s.parts {
		if row, ok := s.word(words, p.words); ok {
			return finding{row.kind, llm.ByCode, row.note}
		}
		if row, ok := s.wording(p.texts); ok {
			return finding{row.kind, llm.ByWording, row.note}
		}
	}
	for _, p := range s.parts {
		if row, ok := s.word(weakWords, p.words); ok {
			return finding{row.kind, llm.ByStatus, row.note}
		}
	}
	return finding{kind: byStatus(s.status)}
}

// statusAllows reports whether a reply of a status may be about that: a status that says which of several it is
// narrows the table, and does not leave it to words.
func statusAllows(status int, kind llm.ErrorKind) bool {
	among := func(kinds ...llm.ErrorKind) bool { return slices.Contains(kinds, kind) }
	switch {
	case status == http.StatusUnauthorized:
		return among(key, quota)
	case status == http.StatusPaymentRequired:
		return among(quota, allowance)
	case status == http.StatusForbidden:
		return among(key, quota, content, capacity)
	case status == http.StatusRequestEntityTooLarge:
		return among(window, allowance)
	case status == http.StatusTooManyRequests, status == statusOverloaded:
		return among(capacity, quota, allowance, window, key)
	case status >= 500: // nobody's key is at fault where the service is
		return among(window, content, capacity, tooMany, cannotTake, failure)
	}
	return true
}

// byStatus is what a refusal is about where nothing else is known.
func byStatus(status int) llm.ErrorKind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return key
	case http.StatusPaymentRequired: // OpenRouter, DeepSeek, Together
		return quota
	case http.StatusTooManyRequests, statusOverloaded:
		return capacity
	case http.StatusRequestEntityTooLarge, statusFlexCapacity:
		return window
	case http.StatusRequestTimeout, http.StatusFailedDependency: // the latter: a model of Bedrock failed
		return failure
	}
	if 400 <= status && status < 500 {
		return cannotTake
	}
	return failure
}

// word finds the row for words.
func (s *refusalBody) word(rows []byWord, words []string) (byWord, bool) {
	for _, row := range rows {
		whole, exact := strings.CutPrefix(row.word, "=")
		for _, word := range words {
			if (exact && word == whole || !exact && strings.Contains(word, row.word)) && statusAllows(s.status, row.kind) {
				return row, true
			}
		}
	}
	return byWord{}, false
}

// wording finds the row for texts.
func (s *refusalBody) wording(texts []string) (byWording, bool) {
	for _, text := range texts {
		text = normal(text)
		for i, pattern := range compiled() {
			row := wordings[i]
			if !statusAllows(s.status, row.kind) || row.kind == capacity && !s.busy() || !pattern.MatchString(text) {
				continue
			}
			if row.kind == capacity {
				row.kind = s.rate(text)
			}
			return row, true
		}
	}
	return byWording{}, false
}

// busy reports whether the status allows that words alone say that the upstream takes no more, which holds for all.
func (s *refusalBody) busy() bool {
	switch s.status {
	case http.StatusTooManyRequests, statusFlexCapacity:
		return true
	}
	return s.status < 400 || s.status >= 500
}

var (
	rateAsked = regexp.MustCompile(`\blimit:? (\d+),.{0,40}\brequested:? (\d+)`)
	rateAgain = regexp.MustCompile(`\bplease (?:try again|retry) (?:in|after) (\d+(?:\.\d+)?) ?(ms|s|m|h)`)
)

// rate is what a rate limit is about: one that the request exceeds by itself says nothing of others. Where the header
// is missing, the text says when to come again (OpenAI, Groq, Azure).
func (s *refusalBody) rate(text string) llm.ErrorKind {
	if m := rateAsked.FindStringSubmatch(text); m != nil && statusAllows(s.status, allowance) {
		limit, _ := strconv.ParseInt(m[1], 10, 64) // digits; one that is too large is the largest
		asked, _ := strconv.ParseInt(m[2], 10, 64)
		if asked > limit {
			return allowance
		}
	}
	if m := rateAgain.FindStringSubmatch(text); m != nil && s.wait == 0 {
		s.waits(m[1] + m[2])
	}
	return capacity
}

// waits notes how long a body asks to wait.
func (s *refusalBody) waits(text string) {
	if wait, ok := Wait(text, time.Now()); ok {
		s.wait = max(wait, llm.AtOnce)
	}
}

var inWord = regexp.MustCompile(`(\pL)['’](\pL)`)

// normal is a message as wordings are written: in lower case, without apostrophes inside words. Its lines stay apart:
// behind the first may stand what the client sent.
func normal(text string) string {
	lines := strings.Split(strings.ToLower(text), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	text = strings.Join(lines, "\n")
	return inWord.ReplaceAllString(text, "$1$2")
}

// compiled are the wordings as expressions. "*" stands for one word, which is a name of the operator's or of the
// service, "#" for a number, and "~" for what the service says before the telling words: nothing quoted, and nothing
// behind a colon, for there may stand what the client sent.
var compiled = sync.OnceValue(func() []*regexp.Regexp {
	parts := strings.NewReplacer(
		`\*`, `[^\s'"`+"`"+`]{1,128}`,
		`#`, `[-\d,.]+`,
		`~`, "(?:[^'\"`“”«»{}:\\n]|:\\S){0,160}?",
	)
	list := make([]*regexp.Regexp, len(wordings))
	for i, row := range wordings {
		list[i] = regexp.MustCompile("^" + parts.Replace(regexp.QuoteMeta(row.wording)))
	}
	return list
})

// LogText is what the operator reads: what happened and, in brackets, the upstream's words for it, such as its code
// and the field that it objects to, as far as they are words. Its message is left out, for services repeat prompts
// and keys in it.
func LogText(happened string, words ...string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return !isErrorWord(word) })
	if len(words) == 0 {
		return happened
	}
	return happened + " (" + strings.Join(words, ", ") + ")"
}

// isErrorWord tells a word for machines, such as "invalid_api_key" or "messages[0].content", from a text or a key.
func isErrorWord(s string) bool {
	return s != "" && len(s) <= maxErrorWord && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.[]", r)
	})
}

// Wait reads how long an upstream asks to wait: seconds, also in parts, or a date (RFC 9110 section 10.2.3), a time
// such as "1m2.5s" (the limits of OpenAI and Groq), or the moment in the form of RFC 3339 (Anthropic) or in seconds or
// milliseconds since 1970 (OpenRouter). It is at most a day, negative for a moment that has passed, and false for
// what says nothing.
func Wait(value string, now time.Time) (time.Duration, bool) {
	if date, err := http.ParseTime(value); err == nil {
		return bounded(date.Sub(now).Seconds()), true
	}
	if d, err := time.ParseDuration(value); err == nil {
		return bounded(d.Seconds()), d >= 0
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return bounded(t.Sub(now).Seconds()), true
	}
	n, err := strconv.ParseFloat(value, 64)
	const (
		secondsOf2001      = 1e9
		millisecondsOf2001 = 1e12
	)
	switch {
	case err != nil || !(n >= 0) || math.IsInf(n, 1):
		return 0, false
	case n >= millisecondsOf2001:
		n = n/1000 - float64(now.Unix())
	case n >= secondsOf2001:
		n -= float64(now.Unix())
	}
	return bounded(n), true
}

// bounded is a wait that is not longer than the longest.
func bounded(seconds float64) time.Duration {
	return time.Duration(max(min(seconds, maxRetryAfter.Seconds()), -maxRetryAfter.Seconds()) * float64(time.Second))
}
