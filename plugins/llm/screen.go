package llm

// ScreenText is a part of what a model would read, for a content policy to judge.
type ScreenText struct {
	// Role is who says it, as in Message; or "request" for what a request says beside its messages: names, descriptions
	// and schemas of tools, and the format of the reply.
	Role string
	Text string
}

// Verdict is what a content policy says of a request.
type Verdict struct {
	Action VerdictAction
	// Categories are what the text is about, where the action is not VerdictAllow: up to 8 words, each of up to 64
	// letters, digits and the signs _ - . / in ASCII. Operators read them, and nothing of the text may stand in them.
	Categories []string
}

// VerdictAction is what comes of a request.
type VerdictAction string

const (
	VerdictAllow VerdictAction = "allow"
	VerdictFlag  VerdictAction = "flag"  // it is noted, and goes on
	VerdictBlock VerdictAction = "block" // it is refused, where the operator enforces the policy
)
