package ledger

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
)

// An API key reads fwk_ + 43 characters + 6 characters, all of them 0-9, A-Z or a-z: 256 random bits in base
// 62, then the CRC-32 (IEEE) of everything before it, in base 62. The prefix lets secret scanners find a
// leaked key, the checksum lets them (and the gateway) tell it from look-alikes without a lookup.
const (
	KeyPrefix = "fwk_"
	// KeyPattern is a regular expression for secret scanners.
	KeyPattern = `\bfwk_[0-9A-Za-z]{49}\b`

	secretLen   = 43 // 62^43 > 2^256
	checksumLen = 6  // 62^6 > 2^32
	keyLen      = len(KeyPrefix) + secretLen + checksumLen
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewKey makes an API key from 256 bits of rand, and the hash by which the ledger knows it. The text is
// shown to its owner once and never stored.
func NewKey(rand io.Reader) (text string, hash [32]byte, err error) {
	var secret [32]byte
	if _, err := io.ReadFull(rand, secret[:]); err != nil {
		return "", hash, fmt.Errorf("making an api key: %w", err)
	}
	text = KeyPrefix + encode62(new(big.Int).SetBytes(secret[:]), secretLen)
	text += checksum(text)
	return text, sha256.Sum256([]byte(text)), nil
}

// ParseKey checks the form and the checksum of what a client sent, and gives its hash for Store.Lookup. Most
// mistyped keys end here, before the store is asked.
func ParseKey(text string) (hash [32]byte, ok bool) {
	if len(text) != keyLen || !strings.HasPrefix(text, KeyPrefix) {
		return hash, false
	}
	body := text[:keyLen-checksumLen]
	if text[len(body):] != checksum(body) {
		return hash, false
	}
	for _, c := range []byte(body[len(KeyPrefix):]) {
		if strings.IndexByte(base62, c) < 0 {
			return hash, false
		}
	}
	return sha256.Sum256([]byte(text)), true
}

// Last4 is the part of a key that may be shown and logged (ACCT-13).
func Last4(text string) string { return text[max(0, len(text)-4):] }

func checksum(body string) string {
	return encode62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), checksumLen)
}

// encode62 writes n in base 62, big-endian, padded with zeros to width. It uses n up.
func encode62(n *big.Int, width int) string {
	out := make([]byte, width)
	base, digit := big.NewInt(int64(len(base62))), new(big.Int)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = base62[digit.Int64()]
	}
	return string(out)
}
