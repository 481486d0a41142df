package spool

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEveryField: a record is read as it was written, whatever is in any of its fields.
func TestEveryField(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r Record
		fill(t, reflect.ValueOf(&r).Elem())
		b, err := r.encode(nil)
		require.NoError(t, err)
		got, err := decode(b)
		require.NoError(t, err)
		require.Equal(t, r, got)
		for n := range b {
			_, err := decode(b[:n])
			require.Error(t, err, "cut at %d of %d", n, len(b))
		}
		_, err = decode(append(b, 0))
		require.Error(t, err, "with a byte more")
		text, err := json.Marshal(r)
		require.NoError(t, err)
		_, err = decode(text)
		require.NoError(t, err, "as a fareway before wrote it")
	})
}

// TestListTooLong: a list that says that it has more than is there, or less than nothing, is refused before room is
// made for it.
func TestListTooLong(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{-1, 4, 1 << 62} {
		c := coder{b: append(binary.AppendVarint(nil, n), "abc"...), reading: true}
		var all []string
		list(&c, &all, func(s *string) { *s = "one" })
		require.ErrorIs(t, c.err, errCode, "%d", n)
		require.Empty(t, all)
	}
}

// TestSyncFails: what the system says of a sync is not kept back.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	f, err := openFile(filepath.Join(t.TempDir(), "spool"), os.O_CREATE|os.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.Error(t, f.Sync())
}

// fill sets everything that a value has.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			if n := rapid.Int64().Draw(t, "time"); n%5 != 0 && n > -1<<62 {
				v.Set(reflect.ValueOf(time.Unix(0, n).UTC()))
			}
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "length"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "text"))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	case reflect.Int:
		v.SetInt(int64(rapid.Int().Draw(t, "number")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	default:
		t.Fatalf("a record has a %s", v.Kind())
	}
}

// FuzzDecode: no bytes are read as what they are not, or are more than an error.
func FuzzDecode(f *testing.F) {
	for _, r := range records(4) {
		b, err := r.encode(nil)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil || b[0] != codeVersion {
			return
		}
		again, err := r.encode(nil)
		require.NoError(t, err)
		got, err := decode(again)
		require.NoError(t, err)
		require.Equal(t, r, got)
	})
}
