package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

type head struct {
	account string
	seq     int64
	hash    byte
}

func sealed(c ledger.Checkpoint, heads ...head) ledger.Digest {
	var h ledger.Heads
	for _, one := range heads {
		h.Add(one.account, one.seq, [32]byte{one.hash})
	}
	return h.Seal(c).Hash
}

func TestCheckpointHash(t *testing.T) {
	t.Parallel()
	c := ledger.Checkpoint{N: 2, Entries: 7, Created: time.Unix(8, 9), Prev: [32]byte{10}, Hash: [32]byte{11}}
	heads := []head{{"acct_1", 3, 4}, {"acct_2", 5, 6}}
	first := sealed(c, heads...)

	var h ledger.Heads
	whole := h.Seal(c)
	require.Equal(t, []any{c.N, c.Entries, c.Created, c.Prev}, []any{whole.N, whole.Entries, whole.Created, whole.Prev},
		"the rest is as it was")

	for name, hash := range map[string]ledger.Digest{
		"number":           sealed(ledger.Checkpoint{N: 3, Entries: 7, Created: c.Created, Prev: c.Prev}, heads...),
		"entries":          sealed(ledger.Checkpoint{N: 2, Entries: 8, Created: c.Created, Prev: c.Prev}, heads...),
		"created":          sealed(ledger.Checkpoint{N: 2, Entries: 7, Created: c.Created.Add(1), Prev: c.Prev}, heads...),
		"prev":             sealed(ledger.Checkpoint{N: 2, Entries: 7, Created: c.Created, Prev: [32]byte{11}}, heads...),
		"an account":       sealed(c, head{"acct_3", 3, 4}, heads[1]),
		"a seq":            sealed(c, head{"acct_1", 4, 4}, heads[1]),
		"a hash":           sealed(c, head{"acct_1", 3, 5}, heads[1]),
		"the order":        sealed(c, heads[1], heads[0]),
		"one less":         sealed(c, heads[0]),
		"one more":         sealed(c, heads[0], heads[1], head{"acct_3", 1, 1}),
		"twice":            sealed(c, heads[0], heads[0], heads[1]),
		"none":             sealed(c),
		"nothing":          {},
		"the hash it held": c.Hash,
	} {
		require.NotEqual(t, first, hash, name)
	}
	covers := c
	covers.Format, covers.Acts, covers.Trail = 2, 12, [32]byte{13}
	second := sealed(covers, heads...)
	require.NotEqual(t, first, second)
	covers.Acts++
	require.NotEqual(t, second, sealed(covers, heads...), "acts")
	covers.Acts, covers.Trail = 12, [32]byte{14}
	require.NotEqual(t, second, sealed(covers, heads...), "the trail")
	require.Equal(t, "d746964a106a1446797e1277a5a1e3afbb07129c1479e3fa301a6ec050c11fe6", second.String(), "this one, too")
	covers.Format, covers.Trail = ledger.CheckpointFormat, [32]byte{13}
	require.Equal(t, "365c747226541ce918215b1ae4b9ed797d3ae154163a3227cfd678c1b9364572",
		sealed(covers, heads...).String(), "and that of the checkpoints that are made now")

	c.Created = c.Created.In(time.FixedZone("elsewhere", 3600))
	require.Equal(t, first, sealed(c, heads...), "a time zone is no part of the moment")
	require.Equal(t, "aa0b446d1ba923bcf5a07eeecc735b5beec7113fe5a96b207a029ac926501743", first.String(),
		"the encoding is for ever: checkpoints that were kept are compared with it")
}

// Wherever one head ends and the next begins is part of the hash.
func TestHeadsAreApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		heads := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) head {
			return head{rapid.StringN(0, 3, 3).Draw(t, "account"), rapid.Int64Range(0, 2).Draw(t, "seq"),
				byte(rapid.IntRange(0, 2).Draw(t, "hash"))}
		}), 0, 4)
		a, b := heads.Draw(t, "a"), heads.Draw(t, "b")
		same := sealed(ledger.Checkpoint{}, a...) == sealed(ledger.Checkpoint{}, b...)
		if len(a) != len(b) {
			require.False(t, same)
			return
		}
		equal := true
		for i := range a {
			equal = equal && a[i] == b[i]
		}
		require.Equal(t, equal, same)
	})
}

func TestDigest(t *testing.T) {
	t.Parallel()
	d := ledger.Digest{0x01, 0xfe, 31: 0xaa}
	text := "01fe" + strings.Repeat("00", 29) + "aa"
	require.Equal(t, text, d.String())
	written, err := json.Marshal(ledger.Checkpoint{N: 1, Hash: d})
	require.NoError(t, err)
	require.Contains(t, string(written), `"hash":"`+text+`"`)
	var read ledger.Checkpoint
	require.NoError(t, json.Unmarshal(written, &read))
	require.Equal(t, d, read.Hash)
	for _, wrong := range []string{"", "01", text + "00", text[:63], strings.Replace(text, "f", "g", 1),
		text[:62] + " a"} {
		require.ErrorContains(t, read.Hash.UnmarshalText([]byte(wrong)), "reading a digest", "%q", wrong)
		require.Equal(t, d, read.Hash)
	}
}
