package wire

import (
	"regexp"
	"strings"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// verdicts pairs the verdicts of the protocol with those of the model.
var verdicts = map[llm.VerdictAction]proto.ScreenResponse_Verdict{
	llm.VerdictAllow: proto.ScreenResponse_ALLOW,
	llm.VerdictFlag:  proto.ScreenResponse_FLAG,
	llm.VerdictBlock: proto.ScreenResponse_BLOCK,
}

// maxCategories is how many categories a verdict may have.
const maxCategories = 8

// category is a word in which no text can be.
var category = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)

// CheckVerdict is an error of kind ErrProtocol where a verdict is none. It repeats nothing of it.
func CheckVerdict(v llm.Verdict) error {
	if _, ok := verdicts[v.Action]; !ok {
		return llm.Errorf(llm.ErrProtocol, "the verdict is none of allow, flag and block")
	}
	if n := len(v.Categories); n > maxCategories {
		return llm.Errorf(llm.ErrProtocol, "the verdict has %d categories; there may be %d", n, maxCategories)
	}
	for _, c := range v.Categories {
		if !category.MatchString(c) {
			return llm.Errorf(llm.ErrProtocol,
				"a category of the verdict is no word of up to 64 letters, digits and the signs _ - . /")
		}
	}
	return nil
}

// TextsToProto translates texts to be judged. The protocol's strings are valid UTF-8.
func TextsToProto(texts []llm.ScreenText) []*proto.ScreenText {
	out := make([]*proto.ScreenText, len(texts))
	for i, t := range texts {
		out[i] = &proto.ScreenText{Role: t.Role, Text: strings.ToValidUTF8(t.Text, "\uFFFD")}
	}
	return out
}

// TextsFromProto translates texts back.
func TextsFromProto(texts []*proto.ScreenText) []llm.ScreenText {
	out := make([]llm.ScreenText, len(texts))
	for i, t := range texts {
		out[i] = llm.ScreenText{Role: t.GetRole(), Text: t.GetText()}
	}
	return out
}

// VerdictToProto translates a verdict, or why there is none.
func VerdictToProto(v llm.Verdict, err error) *proto.ScreenResponse {
	if err == nil {
		err = CheckVerdict(v)
	}
	if err != nil {
		return &proto.ScreenResponse{Failure: FailureToProto(err)}
	}
	return &proto.ScreenResponse{Verdict: verdicts[v.Action], Categories: v.Categories}
}

// VerdictFromProto translates a verdict back. It is not checked.
func VerdictFromProto(r *proto.ScreenResponse) llm.Verdict {
	v := llm.Verdict{Categories: r.GetCategories()}
	for action, verdict := range verdicts {
		if verdict == r.GetVerdict() {
			v.Action = action
		}
	}
	return v
}
