package predict

import (
	"bytes"
	"slices"
	"strings"
)

// Programs put much into users' messages that users did not write: reminders, what is open in an editor, the date,
// retrieved passages, instructions on how to reply. Difficulty, kind and output are read from the question alone, so
// that it is the same in whatever dress it comes.

const (
	// windowBytes is how much of the beginning, and of the end, of a message is searched for the question.
	windowBytes = 8 << 10
	// mostTags is how many tags of a message are looked at, and mostMessages how many messages.
	mostTags, mostMessages = 48, 4
)

func fields(words string) (out [][]byte) {
	for word := range strings.FieldsSeq(words) {
		out = append(out, []byte(word))
	}
	return out
}

// asked are words of the names of tags around a question.
var asked = fields("query question task prompt request user_message usermessage message input objective goal " +
	"utterance issue feature followup problem demande frage aufgabe tarea pregunta consulta вопрос " +
	"задача 问题 任务 质问 質問 依頼 요청 질문 سؤال domanda richiesta pergunta pedido vraag")

// page are the tags of web pages, which are as likely to be what the question is about.
var page = fields("a abbr article aside audio b body br button canvas center code col dd del div dl dt em " +
	"fieldset figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img ins kbd label legend li link " +
	"main map mark math menu meta nav ol optgroup option p path pre q s samp script section select small span strong " +
	"style sub summary sup svg table tbody td template textarea tfoot th thead title tr tt u ul var video xml string " +
	"int t k v e bool")

// separate takes what is no part of the question out of a text, in place, as far as that can be told. What is left may
// be nothing. Where there are worked examples before a question, their form says where it begins (focus).
func (r *framer) separate(text []byte) []byte {
	text = untag(text)
	if _, shots := focus(text); shots > 0 {
		r.asked = Asked{}
		return bytes.TrimSpace(text)
	}
	return bytes.TrimSpace(r.unframe(text))
}

// labels stand before a question, with a colon.
var labels = fields("user human question query task input q customer request prompt instruction message " +
	"frage aufgabe kunde pregunta cliente usuario client demande domanda utente richiesta pergunta usuário vraag taak " +
	"klant fråga fraga pytanie zadanie klient otázka вопрос задача пользователь питання завдання користувач soru " +
	"görev kullanıcı pertanyaan tugas pengguna 问题 用户 问 任务 質問 ユーザー 질문 사용자 سؤال السؤال المستخدم שאלה " +
	"प्रश्न सवाल 用户问题 mesajı soru kysymys kérdés ερώτηση întrebare swali প্রশ্ন கேள்வி คำถาม پرسش")

// unlabel takes labels and brackets off a line; labelled reports whether there was a label, and bare whether the line
// is nothing else.
func unlabel(line []byte) (rest []byte, labelled, bare bool) {
	if b := bytes.TrimSpace(line); len(b) > 2 && b[0] == '[' {
		if i := bytes.IndexByte(b[:min(len(b), 32)], ']'); i > 0 && i+1 < len(b) {
			line = b[i+1:]
		}
	}
	const mostLabel = 40
	if len(line) > 0 && class[line[0]]&isBlank != 0 { // code
		return line, false, false
	}
	i := bytes.IndexByte(line[:min(len(line), mostLabel)], ':')
	if i < 0 {
		return line, false, len(line) <= mostLabel && isLabel(line)
	}
	if !isLabel(line[:i]) {
		return line, false, false
	}
	if rest = bytes.TrimLeft(line[i+1:], "*_\"« "); len(bytes.TrimSpace(rest)) == 0 {
		return line, false, true
	}
	return rest, true, false
}

// isLabel reports whether the last of some words, or of those before "of" or "from" the user, stands before questions.
func isLabel(words []byte) bool {
	name := bytes.Trim(words, "#*_>[]()-=:~ \t\r\n")
	if len(name) > 4 && bytes.EqualFold(name[:4], []byte("end ")) {
		return false
	}
	for range 3 {
		last := name
		if j := bytes.LastIndexByte(name, ' '); j >= 0 {
			last = name[j+1:] // "Your task", "Follow-up question"
		}
		for _, l := range labels {
			if len(l) == len(last) && bytes.EqualFold(last, l) {
				return true
			}
		}
		if len(last) == len(name) || len(last) > 3 && class[last[0]] < 0x80 {
			return false
		}
		name = bytes.TrimRight(name[:len(name)-len(last)], " ")
	}
	return false
}

// Untag is separate by tags alone.
func Untag(text []byte) []byte { return untag(text) }

// untag takes out pseudo-tags, with what is between them where that is no question, and comments.
func untag(text []byte) []byte {
	for range mostTags {
		i := bytes.Index(text, []byte("<!--"))
		if i < 0 {
			break
		}
		j := bytes.Index(text[i:], []byte("-->"))
		if j < 0 {
			break
		}
		text = append(text[:i], text[i+j+3:]...)
	}
	out, at, tags := 0, 0, 0
	for tags < mostTags {
		i := bytes.IndexByte(text[at:], '<')
		if i < 0 {
			break
		}
		i += at
		name, end := tagName(text, i)
		if end == 0 {
			out += copy(text[out:], text[at:i+1])
			at = i + 1
			continue
		}
		tags++
		var small [64]byte
		for k, c := range name {
			small[k] = lower[c]
		}
		lowered := small[:len(name)]
		if isPage(lowered) {
			out += copy(text[out:], text[at:end])
			at = end
			continue
		}
		out += copy(text[out:], text[at:i])
		at = end
		if text[i+1] == '/' || isAsked(lowered) {
			out += copy(text[out:], "\n")
			continue
		}
		if text[end-2] == '/' { // closed by itself
			continue
		}
		mark := closing(name)
		if j := bytes.Index(text[end:], mark); j >= 0 {
			if end+j+len(mark) >= len(text) || out > 0 || len(bytes.TrimSpace(text[end+j+len(mark):])) > 0 {
				at = end + j + len(mark)
			}
		}
	}
	out += copy(text[out:], text[at:])
	return text[:out]
}

func closing(name []byte) []byte {
	var buffer [72]byte
	return append(append(append(buffer[:0], '<', '/'), name...), '>')
}

// tagName is the name of the tag that begins at a place, and where the tag ends; 0 where it is none.
func tagName(text []byte, at int) (name []byte, end int) {
	i := at + 1
	if i < len(text) && text[i] == '/' {
		i++
	}
	if i < len(text) && text[i] == '|' { // <|im_start|>user
		if j := bytes.Index(text[i:min(i+32, len(text))], []byte("|>")); j >= 0 {
			return text[i : i+j], i + j + 2
		}
		return nil, 0
	}
	begin := i
	for i < len(text) && i-begin < 64 && (class[text[i]]&(isLetter|isDigit) != 0 || text[i] == '_' || text[i] == '-') {
		i++
	}
	if i == begin || i == len(text) || class[text[begin]]&isLetter == 0 {
		return nil, 0
	}
	name = text[begin:i]
	switch c := text[i]; {
	case c == '>':
		return name, i + 1
	case class[c]&isBlank != 0 || c == '/':
		if j := bytes.IndexByte(text[i:min(i+400, len(text))], '>'); j >= 0 && bytes.IndexByte(text[i:i+j], '<') < 0 {
			return name, i + j + 1
		}
	}
	return nil, 0
}

func isAsked(name []byte) bool {
	return slices.ContainsFunc(asked, func(word []byte) bool { return bytes.Contains(name, word) })
}

func isPage(name []byte) bool {
	return slices.ContainsFunc(page, func(tag []byte) bool { return bytes.Equal(name, tag) })
}

// says reports whether there is a word or a number in a text.
func says(text []byte) bool {
	return slices.ContainsFunc(text, func(c byte) bool { return class[c]&(isLetter|isDigit) != 0 })
}
