package config

import (
	"regexp"
	"slices"
	"strings"
)

// ModelName is a model's name as services write it, taken apart: who serves it and where, how it is packed, and that
// it is the latest are not in it. Two names are of one model where Name is the same, and of one snapshot where Date is
// as well.
type ModelName struct {
	Name string // "gpt-4o-mini", "llama-3.1-70b"
	Date string // digits of a snapshot: "20240718", "0613", "002", "v0.3"; "" for none
	Chat bool   // it says that the model was trained for conversation ("instruct", "chat", "it")
	// Tuned: it is a fine-tuned one, which is no longer the model of that name.
	Tuned bool
}

var (
	regionPrefix = regexp.MustCompile(`^(us|us-gov|eu|apac|ap|jp|au|ca|sa|global)\.`)
	makerPrefix  = regexp.MustCompile(`^(anthropic|meta|mistral|amazon|cohere|ai21|deepseek|qwen|openai|google|nvidia|` +
		`moonshot|minimax|writer)\.`)
	bedrockVersion = regexp.MustCompile(`-v\d+:\d+(:\w+)?$`)
	digitP         = regexp.MustCompile(`\bv?(\d)p(\d)\b`)
	digitLowLine   = regexp.MustCompile(`(\d)_(\d)`)
	folderLowLine  = regexp.MustCompile(`^[a-z-]+_([a-z])`)
	wordThenDigit  = regexp.MustCompile(`([a-z]{2,})(\d)`)
	packed         = regexp.MustCompile(`^(i?q\d|fp\d+|bf16|int\d+|\d+bit|\d+k)$`)
	oneDigit       = regexp.MustCompile(`^\d$`)
	twoDigits      = regexp.MustCompile(`^\d\d$`)
	yearToken      = regexp.MustCompile(`^20\d\d$`)
	dateToken      = regexp.MustCompile(`^(\d{8}|\d{4,6}|00\d)$`)
	releaseToken   = regexp.MustCompile(`^v\d+\.\d+$`)
	smallVersion   = regexp.MustCompile(`^v\d{1,2}$`)
	openAIReasoner = regexp.MustCompile(`^o\d$`)
)

// chatWords say that a model is for conversation; noise are words that services add to a model's name.
var (
	chatWords = []string{"instruct", "inst", "chat", "it"}
	noise     = []string{"latest", "free", "nitro", "floor", "online", "extended", "beta", "hf", "gguf", "awq", "gptq",
		"mlx", "fc", "any", "auto", "hyperbolic", "sambanova", "versatile", "maas"}
	packedMore = []string{"k", "m", "s", "l", "xs", "0", "1"} // behind q4, as in q4_K_M
)

// ParseModelName takes a model's name apart: as OpenAI, Anthropic, Google, Bedrock, Vertex, Ollama, Hugging Face,
// OpenRouter, Groq, Together, Fireworks and Cloudflare write theirs.
func ParseModelName(model string) (n ModelName) {
	name := strings.ToLower(strings.TrimSpace(model))
	if tuned, ok := strings.CutPrefix(name, "ft:"); ok {
		name, _, _ = strings.Cut(tuned, ":")
		n.Tuned = true
	}
	name = name[strings.LastIndex(name, "/")+1:]
	name = makerPrefix.ReplaceAllString(regionPrefix.ReplaceAllString(name, ""), "")
	name = bedrockVersion.ReplaceAllString(name, "")
	name = digitLowLine.ReplaceAllString(digitP.ReplaceAllString(name, "$1.$2"), "$1.$2")
	name = folderLowLine.ReplaceAllString(name, "$1")
	tokens := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_:@ ", r) })
	tokens = n.takePacking(tokens)
	tokens = strings.Split(wordThenDigit.ReplaceAllString(strings.Join(tokens, "-"), "$1-$2"), "-")
	tokens = n.takeDate(joinDigits(tokens))
	n.Name = strings.Join(n.takeRest(tokens), "-")
	return n
}

// takePacking takes out how a model's weights are packed, and what services add.
func (n *ModelName) takePacking(tokens []string) []string {
	var kept []string
	behind := false
	for _, t := range tokens {
		switch {
		case packed.MatchString(t):
			behind = true
			continue
		case behind && slices.Contains(packedMore, t), slices.Contains(noise, t):
			continue
		case slices.Contains(chatWords, t) && len(kept) > 0:
			n.Chat = true
			continue
		}
		behind = false
		kept = append(kept, t)
	}
	return kept
}

// joinDigits makes one number of a version in two tokens: claude-3-5-sonnet is claude-3.5-sonnet.
func joinDigits(tokens []string) []string {
	var joined []string
	for _, t := range tokens {
		last := len(joined) - 1
		if oneDigit.MatchString(t) && last > 0 && oneDigit.MatchString(joined[last]) {
			joined[last] += "." + t
			continue
		}
		joined = append(joined, t)
	}
	return joined
}

// takeDate takes out the snapshot: 2024-07-18, 20240718, 24-09-07, 06-05, 09-2025, 0613, 002, v0.3.
func (n *ModelName) takeDate(tokens []string) []string {
	var kept []string
	for i := 0; i < len(tokens); i++ {
		two := func(j int) bool { return j < len(tokens) && twoDigits.MatchString(tokens[j]) }
		year := func(j int) bool { return j < len(tokens) && yearToken.MatchString(tokens[j]) }
		length := 0
		switch {
		case i == 0: // a name does not begin with one
		case year(i) && two(i+1) && two(i+2), two(i) && two(i+1) && two(i+2):
			length = 3
		case two(i) && two(i+1), two(i) && year(i+1), year(i) && two(i+1):
			length = 2
		case dateToken.MatchString(tokens[i]), i > 1 && releaseToken.MatchString(tokens[i]):
			length = 1
		}
		if length == 0 {
			kept = append(kept, tokens[i])
			continue
		}
		n.Date = strings.Join(tokens[i:i+length], "")
		i += length - 1
	}
	return kept
}

// takeRest takes out what means something for some makers' models only.
func (n *ModelName) takeRest(tokens []string) []string {
	if len(tokens) > 1 && tokens[0] == "meta" && tokens[1] == "llama" {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 {
		return nil
	}
	if tokens[0] == "chatgpt" {
		tokens[0] = "gpt"
	}
	line := tokens[0]
	var kept []string
	for i, t := range tokens {
		switch {
		case t == "turbo" && line != "gpt" && line != "qwen", t == "instant" && line != "claude":
		case t == "preview" && n.Date != "" && !openAIReasoner.MatchString(line):
		case smallVersion.MatchString(t) && i > 1:
		default:
			kept = append(kept, t)
		}
	}
	return kept
}
