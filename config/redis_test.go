package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRedis: what a url says, and that nothing that prints it shows its password.
func TestRedis(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]RedisAddress{
		"redis://h":                      {Hosts: []string{"h:6379"}},
		"redis://h:1/3":                  {Hosts: []string{"h:1"}, DB: 3},
		"rediss://:hunter2@h:1":          {Hosts: []string{"h:1"}, Password: "hunter2", TLS: true},
		"redis://me:hunter2%40%2F%3F@h":  {Hosts: []string{"h:6379"}, User: "me", Password: "hunter2@/?"},
		"redis://[::1]:7,h2,[fe80::1]/":  {Hosts: []string{"[::1]:7", "h2:6379", "[fe80::1]:6379"}},
		"unix:///run/redis.sock":         {Hosts: []string{"/run/redis.sock"}},
		"unix://:hunter2@/run/r.s?db=12": {Hosts: []string{"/run/r.s"}, Password: "hunter2", DB: 12},
	} {
		r := Redis{URL: url, SentinelPassword: "hunter2", PrivateKey: "hunter2"}
		got, err := r.Address()
		require.NoError(t, err, url)
		require.Equal(t, want, got)
		for _, text := range []string{r.String(), fmt.Sprintf("%v %+v %#v %s %q", r, r, r, r, r),
			fmt.Sprint(Limiter{Redis: r}), fmt.Sprintf("%+v", &Limiter{Redis: r}),
			string(encoded(t, Limiter{Kind: RedisKind, Redis: r})),
			string(encoded(t, Cache{Kind: RedisKind, Redis: r})), r.LogValue().String()} {
			require.NotContains(t, text, "hunter2")
		}
	}
	for url, says := range map[string]string{
		"h:6379":                  "redis://",
		"http://hunter2@h":        "must begin with redis://",
		"redis://hunter2%zz@h":    "%25",
		"redis://h:0":             "port from 1 to 65535",
		"redis://h:hunter2":       "port from 1 to 65535",
		"redis://":                "must name a host",
		"redis://h,":              "must name a host",
		"redis://h/hunter2":       "number of a database",
		"redis://h?db=hunter2":    "question mark",
		"unix://hunter2.sock":     "whole path",
		"unix:///r.sock?x=1":      "nothing else",
		"unix:///r.sock?db=-1":    "nothing else",
		"redis://:a/hunter2@h:17": "",
	} {
		r := Redis{URL: url}
		_, err := r.Address()
		if says == "" {
			require.NoError(t, err, url)
			continue
		}
		require.ErrorContains(t, err, says, url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// TestRedisBlocks: what the attributes of a block must be to each other.
func TestRedisBlocks(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN CERTIFICATE-----\\nx\\n-----END CERTIFICATE-----"
	for lines, says := range map[string]string{
		"url = env(\"REDIS_URL\")":                                                      "REDIS_URL",
		"url = env(\"SECRET_TOKEN\")":                                                   "must be redis://",
		"url = \"redis://h\"\nmode = \"sentinel\"":                                      "Missing master",
		"url = \"redis://h\"\nmaster = \"m\"":                                           "for mode = \"sentinel\" only",
		"url = \"redis://h,i\"":                                                         "names several hosts",
		"url = \"redis://h,i/1\"\nmode = \"cluster\"":                                   "must not name a database",
		"url = \"redis://h\"\nprivate_key = env(\"SECRET_TOKEN\")":                      "belong together",
		"url = \"rediss://h\"\nca = \"" + pem + "\"":                                    "no certificate in PEM",
		"url = \"rediss://h\"\nca = 5":                                                  "must be the text of a certificate",
		"prefix = \"x\"":                                                                "Missing url",
		"url = \"redis://h,i\"\nmode = \"cluster\"":                                     "",
		"url = \"redis://h,i\"\nmode = \"sentinel\"\nmaster = \"m\"\nprefix = \"a:b-\"": "",
	} {
		for _, block := range []string{"limiter", "cache"} {
			c, diags := loadText(t, block+" \"redis\" {\n"+lines+"\n}\n"+minimal)
			requireNoSecret(t, c, diags)
			if says == "" {
				require.Empty(t, diags.All(), lines)
				continue
			}
			require.True(t, diags.HasErrors(), lines)
			require.Contains(t, diags.Error(), says, lines)
		}
	}
	c, diags := loadText(t, "limiter \"redis\" {\nurl = \"redis://h\"\nnodes = 3\n}\n"+minimal)
	require.Empty(t, diags.All())
	require.Equal(t, Limiter{Kind: RedisKind, Nodes: 3, Redis: Redis{URL: "redis://h", Mode: RedisSingle,
		Prefix: defaultRedisPrefix, Timeout: defaultRedisTimeout}}, c.Limiter)
}
