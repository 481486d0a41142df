package people

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

// How long a password is, in characters.
const (
	MinPassword = 12
	MaxPassword = 1024
)

// OWASP's parameters of argon2id (Password Storage Cheat Sheet): 19 MiB, two passes, one thread.
const (
	hashMemory = 19 * 1024 // KiB
	hashPasses = 2
	hashBytes  = 32
	saltBytes  = 16
)

const (
	// maxHashing is how many passwords are computed at a time: the memory of that many is what a flood takes.
	maxHashing = 2
	// hashWait is how long somebody waits for their turn.
	hashWait = 5 * time.Second
)

//go:embed common.txt
var commonText string

// common are passwords that are tried first, in lower case. There are few that are long enough: what is known of them
// is mostly shorter than MinPassword.
var common = func() map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(commonText) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all[line] = true
		}
	}
	return all
}()

// CheckPassword is a WeakError where a new password of somebody is none.
func CheckPassword(email, password string) error {
	if !utf8.ValidString(password) {
		return fmt.Errorf("%w: the password is no text", ErrInvalid)
	}
	password = norm.NFC.String(password)
	switch n := utf8.RuneCountInString(password); {
	case n < MinPassword:
		return &WeakError{TooShort}
	case n > MaxPassword:
		return &WeakError{TooLong}
	}
	lower := strings.ToLower(password)
	local, _, _ := strings.Cut(email, "@")
	if strings.Contains(lower, email) || len(local) >= 6 && strings.Contains(lower, local) {
		return &WeakError{Personal}
	}
	if common[lower] || isPattern(lower) {
		return &WeakError{Common}
	}
	return nil
}

// isPattern reports whether a password is a few characters, or one part, over and over, or one row of a keyboard.
func isPattern(lower string) bool {
	runes := []rune(lower)
	different := make(map[rune]bool)
	for _, r := range runes {
		different[r] = true
	}
	if len(different) < 5 {
		return true
	}
	for size := 1; size <= 4; size++ {
		if same := strings.Repeat(string(runes[:size]), len(runes)/size+1); strings.HasPrefix(same, lower) {
			return true
		}
	}
	for _, row := range []string{"01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm",
		"qwertzuiopasdfghjklyxcvbnm", "azertyuiopqsdfghjklmwxcvbn"} {
		if strings.Contains(row, lower) || strings.Contains(row, reverse(runes)) {
			return true
		}
	}
	return false
}

func reverse(runes []rune) string {
	var b strings.Builder
	for i := len(runes) - 1; i >= 0; i-- {
		b.WriteRune(runes[i])
	}
	return b.String()
}

// hashing computes argon2id, a few at a time.
type hashing struct {
	turns    chan struct{}
	memory   uint32        // hashMemory, but in tests
	computed *atomic.Int64 // how often, for tests: the same for whoever asks
	nothing  string        // the hash of a password that nobody has
}

func newHashing() hashing {
	h := hashing{turns: make(chan struct{}, maxHashing), memory: hashMemory, computed: new(atomic.Int64)}
	var salt [saltBytes]byte
	h.nothing = h.write(salt[:], make([]byte, hashBytes))
	return h
}

// begin waits for a turn. It is a ThrottledError where there are too many before.
func (h *hashing) begin(ctx context.Context) (end func(), err error) {
	timer := time.NewTimer(hashWait)
	defer timer.Stop()
	select {
	case h.turns <- struct{}{}:
		return func() { <-h.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, &ThrottledError{Wait: hashWait}
	}
}

func (h *hashing) compute(password string, salt []byte, memory, passes uint32) []byte {
	h.computed.Add(1)
	return argon2.IDKey([]byte(norm.NFC.String(password)), salt, passes, memory, 1, hashBytes)
}

// hash is what is kept of a password.
func (h *hashing) hash(ctx context.Context, password string) (string, error) {
	end, err := h.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails
	return h.write(salt[:], h.compute(password, salt[:], h.memory, hashPasses)), nil
}

// matches reports whether a password is that of a hash. It takes as long for none ("") as for one. It is for who has a
// turn.
func (h *hashing) matches(hash, password string) bool {
	none := hash == "" || utf8.RuneCountInString(password) > MaxPassword
	if none {
		hash, password = h.nothing, password[:min(len(password), MaxPassword)]
	}
	salt, sum, memory, passes, ok := readHash(hash)
	if !ok {
		salt, sum, memory, passes, _ = readHash(h.nothing)
		none = true
	}
	return subtle.ConstantTimeCompare(h.compute(password, salt, memory, passes), sum) == 1 && !none
}

// write writes a hash as a PHC string.
func (h *hashing) write(salt, sum []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, h.memory, hashPasses,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

// readHash reads one, also with other parameters: an earlier fareway may have written it.
func readHash(text string) (salt, sum []byte, memory, passes uint32, ok bool) {
	var version int
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return nil, nil, 0, 0, false
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return nil, nil, 0, 0, false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=1", &memory, &passes); err != nil || passes == 0 {
		return nil, nil, 0, 0, false
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return nil, nil, 0, 0, false
	}
	sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	return salt, sum, memory, passes, err == nil && len(sum) == hashBytes
}

// setPassword gives a person another one, and ends their sessions but one.
func (t *tx) setPassword(p *personRow, hash, but string) error {
	if _, err := t.exec(`UPDATE portal_people SET password = $1 WHERE id = $2`, hash, p.ID); err != nil {
		return err
	}
	if err := t.withdrawResets(p.ID); err != nil {
		return err
	}
	return t.endSessions(p.ID, but)
}
