package tokens

import (
	"encoding/binary"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tiktoken-go/tokenizer/codec"
)

var update = flag.Bool("update", false, "write the files made from the vocabularies anew")

// The real tokenizers, which everything here is held against.
var (
	o200k  = sync.OnceValue(codec.NewO200kBase)
	cl100k = sync.OnceValue(codec.NewCl100kBase)
)

// vocabulary returns the tokens of a codec that are not special.
func vocabulary(t testing.TB, c *codec.Codec, special uint) map[string]bool {
	t.Helper()
	all := make(map[string]bool, special)
	for id := range special {
		token, err := c.Decode([]uint{id})
		require.NoError(t, err)
		all[token] = true
	}
	return all
}

func TestVocabulary(t *testing.T) {
	t.Parallel()
	o, cl := vocabulary(t, o200k(), 199998), vocabulary(t, cl100k(), 100256)
	t.Run("the filter knows every token of o200k and hardly any other string", func(t *testing.T) {
		t.Parallel()
		if *update {
			require.NoError(t, os.WriteFile("o200k.filter", buildFilter(o), 0o644))
			return
		}
		strangers, taken := 0, 0
		for token := range o {
			if !known(keyOf(token)) {
				require.Fail(t, "unknown token", "%q; write the filter anew with -update", token)
			}
			if stranger := token + "\x00"; !o[stranger] {
				strangers++
				if known(keyOf(stranger)) {
					taken++
				}
			}
		}
		require.Less(t, taken, strangers/10_000)
	})
	t.Run("the pairs and triples are those that both vocabularies have", func(t *testing.T) {
		t.Parallel()
		want := buildMerges(func(s string) bool { return o[s] && cl[s] })
		if *update {
			require.NoError(t, os.WriteFile("merges.bits", want, 0o644))
			return
		}
		require.True(t, string(want) == mergeBits, "merges.bits is not what the vocabularies say; write it anew with -update")
	})
}

// buildMerges returns the content of merges.bits.
func buildMerges(both func(string) bool) []byte {
	bits := make([]byte, (tripleBits+1<<15)/8)
	set := func(bit int, s string) {
		if both(s) {
			bits[bit>>3] |= 1 << (bit & 7)
		}
	}
	for a := range 128 {
		for b := range 128 {
			set(a<<7|b, string([]byte{byte(a), byte(b)}))
		}
	}
	const symbols = " abcdefghijklmnopqrstuvwxyz"
	for a := range len(symbols) {
		for b := range len(symbols) {
			for c := range len(symbols) {
				set(tripleBits+(a<<10|b<<5|c), string([]byte{symbols[a], symbols[b], symbols[c]}))
			}
		}
	}
	return bits
}

// buildFilter returns the content of o200k.filter. Each token has three slots; as long as some slot belongs to
// one token only, that token is put aside with it. When all are put aside, the slots are filled in the opposite
// order, so that no token spoils one before it. It works for most seeds when there are 1.23 slots a token.
func buildFilter(tokens map[string]bool) []byte {
	type aside struct {
		hash uint64
		slot uint32
	}
	segment := uint32(len(tokens)*123/300) + 11
	for seed := uint64(1); ; seed++ {
		users, sum := make([]uint32, 3*segment), make([]uint64, 3*segment)
		turn := func(hash uint64, by uint32) {
			for _, slot := range filterPlaces(hash, segment) {
				users[slot] += by
				sum[slot] ^= hash
			}
		}
		for token := range tokens {
			turn(scramble(keyOf(token), seed), 1)
		}
		var order []aside
		for todo := allSlots(3 * segment); len(todo) > 0; {
			slot := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if users[slot] == 1 {
				hash := sum[slot]
				order = append(order, aside{hash, slot})
				turn(hash, ^uint32(0))
				places := filterPlaces(hash, segment)
				todo = append(todo, places[:]...)
			}
		}
		if len(order) < len(tokens) {
			continue
		}
		slots := make([]uint16, 3*segment)
		for i := len(order) - 1; i >= 0; i-- {
			fill := fingerprint(order[i].hash)
			for _, slot := range filterPlaces(order[i].hash, segment) {
				fill ^= slots[slot] // the one to fill is still 0
			}
			slots[order[i].slot] = fill
		}
		file := binary.LittleEndian.AppendUint64(nil, seed)
		for _, slot := range slots {
			file = binary.LittleEndian.AppendUint16(file, slot)
		}
		return file
	}
}

func allSlots(n uint32) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

func TestPiecesAreThoseOfO200k(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Hello, world! It's 12345 o'clock; we'll see.\n\n\tHTTPServer camelCase snake_case x.y(z)  \n  end  ",
		"漢字ABC かなカナ한국어 été ÉTÉ Ünïcödé naïve’s ‘quote’ — «x» № ½ ١٢٣٤",
		"a\u0301b \u0301x .\u0301 \u00a0y\u3000z;\r\n/* c */ //\n/ http://a/b?c=d&e='s 'll'RE'Ve'x \"'\"''s",
	} {
		_, real, err := o200k().Encode(text)
		require.NoError(t, err)
		ends, at := map[int]bool{}, 0
		for _, token := range real {
			at += len(token)
			ends[at] = true
		}
		for at = 0; at < len(text); {
			n := piece(text[at:])
			require.Positive(t, n)
			at += n
			require.True(t, ends[at], "no token ends after %q", strings.TrimSpace(text[:at]))
		}
	}
}
