package reply_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

var (
	chat     = reply.Counting{Input: "prompt_tokens", Output: "completion_tokens"}
	messages = reply.Counting{Input: "input_tokens", Output: "output_tokens", CacheBeside: true}
	gemini   = reply.Counting{Input: "promptTokenCount", Output: "candidatesTokenCount", ReasoningBeside: true}
)

// metered is the usage of a reply of some text whose upstream reported these usages.
func metered(t require.TestingT, d reply.Counting, allowance int64, usages ...string) *llm.Usage {
	var usage *llm.Usage
	s := reply.New(d, func(ev llm.Event) error {
		if ev.Kind == llm.EventUsage {
			usage = ev.Usage
		}
		return nil
	})
	s.Allowance(allowance)
	require.NoError(t, s.Said("a"))
	for _, u := range usages {
		s.Used(view(t, u))
	}
	require.NoError(t, s.End())
	return usage
}

// TestReadings proves the rows of the wire's usages, and others of their kinds.
func TestReadings(t *testing.T) {
	t.Parallel()
	const doubt = "total_tokens is more than the counts that it is the sum of"
	for _, tt := range []struct {
		name      string
		d         reply.Counting
		allowance int64
		usage     string
		want      string // input, read, written, output, reasoning; a dash for nothing
		doubt     string
	}{
		{"cached beside the prompt", chat, 0, `{"prompt_tokens":479,"completion_tokens":373,"total_tokens":14164,
			"prompt_tokens_details":{"cached_tokens":13312}}`, "479 13312 - 373 -", ""},
		{"cached beside the prompt, fewer than it", chat, 0, `{"prompt_tokens":5000,"completion_tokens":100,
			"total_tokens":8100,"cached_tokens":3000}`, "5000 3000 - 100 -", ""},
		{"cached within the prompt", chat, 0, `{"prompt_tokens":5000,"completion_tokens":100,"total_tokens":5100,
			"cached_tokens":3000}`, "2000 3000 - 100 -", ""},
		{"thoughts as the difference", chat, 0, `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":315}`,
			"10 - - 305 300", ""},
		{"one thought as the difference", chat, 0, `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":16}`,
			"10 - - 6 1", ""},
		{"at the allowance", chat, 305, `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":315}`,
			"10 - - 305 300", ""},
		{"beyond the allowance", chat, 304, `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":315}`,
			"10 - - 5 -", doubt},
		{"thoughts beyond those that were counted", chat, 0, `{"prompt_tokens":20,"completion_tokens":424,
			"total_tokens":1016,"reasoning_tokens":400}`, "20 - - 996 972", ""},
		{"reasoning beside the completion", chat, 0, `{"prompt_tokens":10,"completion_tokens":3,"total_tokens":18,
			"completion_tokens_details":{"reasoning_tokens":5}}`, "10 - - 8 5", ""},
		{"both beside", chat, 0, `{"prompt_tokens":10,"completion_tokens":3,"total_tokens":22,"cached_tokens":4,
			"reasoning_tokens":5}`, "10 4 - 8 5", ""},
		{"cached within the prompt where it is published beside", messages, 0, `{"input_tokens":1000,"output_tokens":50,
			"cache_read_input_tokens":900,"total_tokens":1050}`, "100 900 - 50 -", ""},
		{"cached beside, as it is published", messages, 0, `{"input_tokens":1000,"output_tokens":50,
			"cache_read_input_tokens":900,"total_tokens":1950}`, "1000 900 - 50 -", ""},
		{"a total that counts no cache", messages, 0, `{"input_tokens":10,"output_tokens":50,
			"cache_read_input_tokens":900,"total_tokens":60}`, "10 900 - 50 -", ""},
		{"thoughts within the output where they are published beside", gemini, 0, `{"promptTokenCount":100,
			"candidatesTokenCount":500,"thoughtsTokenCount":400,"totalTokenCount":600}`, "100 - - 500 400", ""},
		{"more thoughts than output", gemini, 0, `{"promptTokenCount":100,"candidatesTokenCount":50,
			"thoughtsTokenCount":400,"totalTokenCount":150}`, "100 - - 450 400", ""},
		{"Alibaba's details", chat, 0, `{"prompt_tokens":2600,"completion_tokens":300,"total_tokens":2900,
			"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":2400,"cache_type":"ephemeral"}}`,
			"200 0 2400 300 -", ""},
		{"the parts of them", chat, 0, `{"prompt_tokens":2600,"completion_tokens":300,"prompt_tokens_details":
			{"cache_creation":{"ephemeral_5m_input_tokens":1400,"ephemeral_1h_input_tokens":1000}}}`,
			"200 - 2400 300 -", ""},
		{"Mistral's names", chat, 0, `{"prompt_tokens":5000,"completion_tokens":100,"total_tokens":5100,
			"num_cached_tokens":4000,"prompt_token_details":{"cached_tokens":4000}}`, "1000 4000 - 100 -", ""},
		{"a total below all readings", chat, 0, `{"prompt_tokens":10,"completion_tokens":3,"total_tokens":3}`,
			"10 - - 3 -", ""},
		{"no total", chat, 0, `{"prompt_tokens":10,"completion_tokens":3,"cached_tokens":4,"reasoning_tokens":2}`,
			"6 4 - 3 2", ""},
		{"a total that is none", chat, 0, `{"prompt_tokens":10,"completion_tokens":3,"total_tokens":-1}`, "10 - - 3 -", ""},
		{"the completion as the difference", chat, 0, `{"prompt_tokens":10,"total_tokens":15}`, "10 - - 5 -", ""},
		{"the same, with reasoning", gemini, 0, `{"promptTokenCount":10,"thoughtsTokenCount":4,"totalTokenCount":19}`,
			"10 - - 9 4", ""},
		{"LiteLLM's cache writes", chat, 0, `{"prompt_tokens":10032,"completion_tokens":5,"total_tokens":10037,
			"cache_creation_input_tokens":10017,"cache_read_input_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}`,
			"15 0 10017 5 -", ""},
		{"LiteLLM's cache reads", chat, 0, `{"prompt_tokens":3500,"completion_tokens":5,"cache_read_input_tokens":3000}`,
			"500 3000 - 5 -", ""},
		{"the parts of what was written", messages, 0, `{"input_tokens":10,"output_tokens":5,
			"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":40}}`, "10 - 70 5 -", ""},
		{"the whole and its parts", messages, 0, `{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":70,
			"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":40}}`, "10 - 70 5 -", ""},
		{"LiteLLM's details", chat, 0, `{"prompt_tokens":100,"completion_tokens":5,
			"prompt_tokens_details":{"cache_creation_tokens":30}}`, "70 - 30 5 -", ""},
		{"OpenRouter's details", chat, 0, `{"prompt_tokens":100,"completion_tokens":5,
			"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":30}}`, "60 10 30 5 -", ""},
		{"New API's details", chat, 0, `{"prompt_tokens":100,"completion_tokens":5,
			"prompt_tokens_details":{"cached_creation_tokens":30}}`, "70 - 30 5 -", ""},
		{"DeepSeek's hits and misses", chat, 0, `{"completion_tokens":5,"prompt_cache_hit_tokens":10,
			"prompt_cache_miss_tokens":30}`, "30 10 - 5 -", ""},
		{"the same beside", messages, 0, `{"output_tokens":5,"prompt_cache_hit_tokens":10,
			"prompt_cache_miss_tokens":30}`, "30 10 - 5 -", ""},
		{"hits and misses beside their sum", chat, 0, `{"prompt_tokens":40,"completion_tokens":5,
			"prompt_cache_hit_tokens":10,"prompt_cache_miss_tokens":30}`, "30 10 - 5 -", ""},
		{"Anthropic's thinking", messages, 0, `{"input_tokens":10,"output_tokens":5,
			"output_tokens_details":{"thinking_tokens":3}}`, "10 - - 5 3", ""},
		{"responses' names in a chat", chat, 0, `{"input_tokens":10,"output_tokens":5,"total_tokens":15,
			"input_tokens_details":{"cached_tokens":4},"output_tokens_details":{"reasoning_tokens":3}}`, "6 4 - 5 3", ""},
		{"Google's names in a chat", chat, 0, `{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":18,
			"cachedContentTokenCount":4,"thoughtsTokenCount":3}`, "6 4 - 8 3", ""},
		{"Google's Python names", gemini, 0, `{"prompt_token_count":10,"candidates_token_count":5,
			"cached_content_token_count":4,"thoughts_token_count":3,"tool_use_prompt_token_count":7}`, "13 4 - 8 3", ""},
		{"Bedrock's names in messages", messages, 0, `{"inputTokens":10,"outputTokens":5,"totalTokens":115,
			"cacheReadInputTokens":70,"cacheWriteInputTokens":30}`, "10 70 30 5 -", ""},
		{"Ollama's names", chat, 0,
			`{"prompt_eval_count":10,"prompt_eval_cached_count":4,"eval_count":5}`, "6 4 - 5 -", ""},
		{"another vendor's zeros", chat, 0,
			`{"input_tokens":0,"prompt_tokens":10,"completion_tokens":5,"output_tokens":0}`,
			"10 - - 5 -", ""},
		{"zeros first", chat, 0, `{"prompt_tokens":0,"completion_tokens":0,"input_tokens":10,"output_tokens":5}`,
			"10 - - 5 -", ""},
		{"the dialect's own name", messages, 0, `{"prompt_tokens":80,"input_tokens":10,"output_tokens":5,
			"cache_read_input_tokens":70}`, "10 70 - 5 -", ""},
		{"more cached than there was", chat, 0, `{"prompt_tokens":3,"completion_tokens":1,"cached_tokens":2,
			"cache_creation_input_tokens":9}`, "0 2 1 1 -", ""},
		{"the most that was cached", chat, 0, `{"prompt_tokens":10,"completion_tokens":5,"cached_tokens":2,
			"prompt_tokens_details":{"cached_tokens":4}}`, "6 4 - 5 -", ""},
		{"the most that was cached, first", chat, 0, `{"prompt_tokens_details":{"cached_tokens":4},"cached_tokens":2,
			"prompt_tokens":10,"completion_tokens":5}`, "6 4 - 5 -", ""},
		{"the first of two strange names", messages, 0, `{"prompt_tokens":10,"promptTokenCount":12,"completion_tokens":5,
			"candidatesTokenCount":7}`, "10 - - 5 -", ""},
		{"the dialect's own name, behind another's", chat, 0,
			`{"input_tokens":9,"prompt_tokens":1,"output_tokens":7,"completion_tokens":1}`, "1 - - 1 -", ""},
		{"a prompt that nobody counted is no thought", chat, 0,
			`{"prompt_tokens":0,"completion_tokens":7,"total_tokens":1018}`, "0 - - 7 -",
			"total_tokens is more than the counts that it is the sum of"},
		{"zero is zero", chat, 0, `{"prompt_tokens":0,"completion_tokens":1,"cached_tokens":0}`, "0 0 - 1 -", ""},
		{"enough for a sum", gemini, 0, `{"promptTokenCount":1,"candidatesTokenCount":9007199254740992,
			"thoughtsTokenCount":9007199254740992}`, "1 - - 9007199254740992 9007199254740992", ""},
	} {
		t.Run("GAP-125 "+tt.name, func(t *testing.T) {
			t.Parallel()
			u := metered(t, tt.d, tt.allowance, tt.usage)
			require.NotNil(t, u)
			require.Empty(t, u.Flaw)
			require.Equal(t, tt.want, shown(u))
			require.Equal(t, tt.doubt, u.Doubt)
		})
	}
	t.Run("GAP-125 a total that is no more than the prompt says nothing of the output", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, &llm.Usage{Flaw: "completion_tokens is missing"},
			metered(t, chat, 0, `{"prompt_tokens":9,"total_tokens":9}`))
	})
	t.Run("GAP-125 a prompt that nobody counted is no output", func(t *testing.T) {
		t.Parallel()
		require.False(t, metered(t, chat, 0, `{"prompt_tokens":0,"total_tokens":1018}`).Known())
		require.True(t, metered(t, chat, 0, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":1018}`).Blank())
		require.False(t, (&llm.Usage{Flaw: "garbled"}).Blank(), "it is told of")
	})
	t.Run("GAP-108 zeros are no witness of a text", func(t *testing.T) {
		t.Parallel()
		zeros := metered(t, chat, 0, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`)
		require.Equal(t, &llm.Usage{Input: llm.Count(0), Output: llm.Count(0)}, zeros)
		require.True(t, zeros.Blank())
		for _, used := range []llm.Usage{{Input: llm.Count(1)}, {CacheRead: llm.Count(1)}, {CacheWrite: llm.Count(1)},
			{Output: llm.Count(1)}} {
			require.False(t, used.Blank())
		}
		require.Equal(t, &llm.Usage{Input: llm.Count(9), Output: llm.Count(0)},
			metered(t, chat, 0, `{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}`), "a count")
	})
	t.Run("GAP-111 what is garbled is named", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, &llm.Usage{Flaw: "cache_creation.ephemeral_1h_input_tokens is negative"},
			metered(t, chat, 0, `{"cache_creation":{"ephemeral_1h_input_tokens":-1},"prompt_tokens":"9"}`))
		require.Equal(t, &llm.Usage{Flaw: "completion_tokens is negative"},
			metered(t, chat, 0, `{"prompt_tokens":9}`, `{"prompt_tokens":9,"completion_tokens":-1}`))
	})
}

func shown(u *llm.Usage) string {
	var all []string
	for _, n := range []*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
		if n == nil {
			all = append(all, "-")
			continue
		}
		all = append(all, fmt.Sprint(*n))
	}
	return strings.Join(all, " ")
}

// TestChargeIsThatOfTheReadingThatAddsUp: whatever a vendor's reading is, and however its reports of one usage come,
// the charge is that of the usage.
func TestChargeIsThatOfTheReadingThatAddsUp(t *testing.T) {
	t.Parallel()
	t.Run("GAP-124 GAP-125", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.Int64Range(1, 1_000)
			plain, read, written := n.Draw(t, "plain"), n.Draw(t, "read"), n.Draw(t, "written")
			said, thought := n.Draw(t, "said"), n.Draw(t, "thought")
			d := rapid.SampledFrom([]reply.Counting{chat, messages, gemini}).Draw(t, "dialect")
			cacheBeside := rapid.Bool().Draw(t, "cache beside")
			if read+written == thought {
				t.Skip("two readings add up")
			}
			thoughtBeside := rapid.Bool().Draw(t, "thought beside")

			prompt, output := plain+read+written, said+thought
			names := rapid.SampledFrom([][]string{
				{"prompt_tokens", "cached_tokens", "cache_creation_input_tokens", "completion_tokens", "reasoning_tokens",
					"total_tokens"},
				{"promptTokenCount", "cachedContentTokenCount", "cacheWriteInputTokens", "candidatesTokenCount",
					"thoughtsTokenCount", "totalTokenCount"},
			}).Draw(t, "names")
			counts := []int64{prompt, read, written, output, thought, prompt + output}
			if cacheBeside {
				counts[0] = plain
			}
			if thoughtBeside {
				counts[3] = said
			}
			report := func(which func(i int) bool) string {
				var members []string
				for i, name := range names {
					if which(i) {
						members = append(members, fmt.Sprintf("%q:%d", name, counts[i]))
					}
				}
				return "{" + strings.Join(members, ",") + "}"
			}
			whole := report(func(int) bool { return true })
			// Without its total a report is read as it is published: one that leaves more out is part of this one then.
			reports := []string{whole, `null`, `{}`,
				fmt.Sprintf(`{%q:%d,%q:%d}`, names[0], prompt, names[3], said),                  // not split yet
				fmt.Sprintf(`{%q:%d,%q:0,%q:%d}`, names[0], prompt, names[1], names[3], said/2), // said to be none
				fmt.Sprintf(`{%q:0,%q:%d}`, names[0], names[3], said),                           // of the output only
				fmt.Sprintf(`{%q:%d}`, names[3], said), `{"prompt_tokens":-1}`}
			order := rapid.Permutation(reports).Draw(t, "order")

			u := metered(t, d, 0, order...)
			require.NotNil(t, u)
			require.Empty(t, u.Flaw)
			price := func(in, r, w, out int64) int64 { return 7*in + 2*r + 11*w + 31*out }
			require.Equal(t, price(plain, read, written, output),
				price(llm.Tokens(u.Input), llm.Tokens(u.CacheRead), llm.Tokens(u.CacheWrite), llm.Tokens(u.Output)))
			require.Equal(t, thought, llm.Tokens(u.Reasoning))
		})
	})
}

func TestExpectedUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*reply.Stream)
		want *llm.Usage
	}{
		{"broken off: its prompt is work, its output is not", func(s *reply.Stream) { _ = s.Broken() },
			&llm.Usage{Input: llm.Count(3), CacheRead: llm.Count(4), Output: llm.Count(0)}},
		{"broken off after its bill", func(s *reply.Stream) {
			s.Used(view(t, `{"output_tokens":9}`))
			_ = s.Broken()
		}, &llm.Usage{Input: llm.Count(3), CacheRead: llm.Count(4), Output: llm.Count(9)}},
		{"without a bill", func(s *reply.Stream) { _ = s.End() }, &llm.Usage{Flaw: "output_tokens is missing"}},
	} {
		t.Run("GAP-124 "+tt.name, func(t *testing.T) {
			t.Parallel()
			var usage *llm.Usage
			s := reply.New(messages, func(ev llm.Event) error {
				if ev.Kind == llm.EventUsage {
					usage = ev.Usage
				}
				return nil
			})
			s.Expected(view(t, `{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":5}`))
			require.False(t, s.Metered())
			require.NoError(t, s.Said("a"))
			tt.end(s)
			require.Equal(t, tt.want, usage)
		})
	}
}

// TestTimed is what a llama.cpp server says while it works (ggml-org/llama.cpp #15827): it counts where nothing else
// does.
func TestTimed(t *testing.T) {
	t.Parallel()
	const so = `{"cache_n":236,"prompt_n":1,"prompt_ms":30.9,"predicted_n":35,"predicted_ms":661.0}`
	done := &llm.Usage{Input: llm.Count(1), CacheRead: llm.Count(236), Output: llm.Count(35)}
	for name, tt := range map[string]struct {
		timings []string
		used    string // said at the end
		want    *llm.Usage
		worked  bool
	}{
		"alone":          {[]string{so}, "", done, true},
		"no count falls": {[]string{so, `{"cache_n":236,"prompt_n":1,"predicted_n":34}`}, "", nil, true},
		"beside usage": {[]string{so}, `{"prompt_tokens":240,"completion_tokens":36}`,
			&llm.Usage{Input: llm.Count(240), Output: llm.Count(36)}, true},
		"beside usage that is none": {[]string{so}, `{"prompt_tokens":-1}`, done, true},
		"beside half of one":        {[]string{so}, `{"prompt_tokens":240}`, done, true},
		"without what was cached": {[]string{`{"prompt_n":1,"predicted_n":35}`}, "",
			nil, false},
		"garbled": {[]string{`{"cache_n":-1,"prompt_n":1,"predicted_n":35}`, `7`, `null`}, "", nil, false},
	} {
		for how, end := range map[string]func(*reply.Stream) error{"ended": (*reply.Stream).End,
			"broken off": (*reply.Stream).Broken} {
			t.Run("GAP-47 "+name+", "+how, func(t *testing.T) {
				t.Parallel()
				var usage *llm.Usage
				s := reply.New(reply.Counting{Input: "prompt_tokens", Output: "completion_tokens"}, func(ev llm.Event) error {
					if ev.Kind == llm.EventUsage {
						usage = ev.Usage
					}
					return nil
				})
				require.NoError(t, s.Said("a"))
				for _, one := range tt.timings {
					s.Timed(view(t, one))
				}
				if tt.used != "" {
					s.Used(view(t, tt.used))
				}
				require.Equal(t, tt.worked, s.Worked())
				_ = end(s)
				switch {
				case tt.want != nil:
					require.Equal(t, tt.want, usage)
				case tt.worked:
					require.EqualValues(t, 35, *usage.Output)
				default:
					require.False(t, usage.Known())
				}
			})
		}
	}
}
