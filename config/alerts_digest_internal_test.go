package config

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADigestIsOfAllThatABlockHas: a reload takes up whatever has changed in it, one attribute after the other.
func TestADigestIsOfAllThatABlockHas(t *testing.T) {
	t.Parallel()
	for _, block := range []interface{ Digest() string }{&Webhook{}, &Mail{}} {
		v := reflect.ValueOf(block).Elem()
		seen := map[string]string{block.Digest(): "none"}
		for i := range v.NumField() {
			name, f := v.Type().Field(i), v.Field(i)
			if !name.IsExported() {
				continue
			}
			switch f.Kind() {
			case reflect.String:
				f.SetString("changed")
			case reflect.Int64:
				f.SetInt(1)
			case reflect.Uint16:
				f.SetUint(1)
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Slice:
				f.Set(reflect.ValueOf([]string{"changed"}))
			default:
				t.Fatalf("%s is of a kind that the test does not know: %s", name.Name, f.Kind())
			}
			digest := block.Digest()
			require.Empty(t, seen[digest], name.Name)
			seen[digest] = name.Name
		}
	}
}
