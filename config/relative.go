package config

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lineage is what a model's name says of which line of models it is of, and how large a one.
type lineage struct {
	line    string
	version float64 // 4 of gpt-4o, 3.3 of llama-3.3; 0 where the name does not say
	size    float64 // billions of parameters, 0 where the name does not say
	rank    float64 // of its maker's words for size: nano 0, mini 1, without one 2, pro 3
}

var (
	sizeToken   = regexp.MustCompile(`^(\d+(?:\.\d+)?)(?:x(\d+(?:\.\d+)?))?b$`)
	leadingWord = regexp.MustCompile(`^[a-z]+`)
	// versionToken is a version by itself, or behind the line's one letter, as in o1.
	versionToken = regexp.MustCompile(`^(?:v|o)?(\d{1,2}(?:\.\d+)?)o?$`)
)

// ranks are makers' words for how large a model is.
var ranks = map[string]float64{"nano": 0, "lite": 0.5, "tiny": 0.5, "mini": 1, "haiku": 1, "flash": 1, "small": 1,
	"instant": 1, "sonnet": 2, "medium": 2, "turbo": 2, "plus": 2, "opus": 3, "pro": 3, "large": 3, "max": 3,
	"ultra": 3, "core": 3}

// unlike are words for models that are no relatives of those that converse, or of another line by the same name.
var unlike = []string{"embed", "embedding", "rerank", "audio", "realtime", "transcribe", "tts", "image", "guard",
	"moderation", "oss", "ocr", "whisper"}

// lineageOf reads a name; ok is false for one that no model of the table can be like.
func lineageOf(name string) (l lineage, ok bool) {
	tokens := strings.Split(name, "-")
	if l.line = leadingWord.FindString(tokens[0]); l.line == "" {
		return l, false
	}
	l.rank = 2
	if l.line == "o" { // of OpenAI: o1, o3
		l.rank = 3
	}
	for i, t := range tokens {
		rank, ranked := ranks[t]
		m := sizeToken.FindStringSubmatch(t)
		if v := versionToken.FindStringSubmatch(t); v != nil && l.version == 0 {
			l.version, _ = strconv.ParseFloat(v[1], 64)
		}
		switch {
		case slices.Contains(unlike, t):
			return l, false
		case ranked && i > 0:
			l.rank = rank
			if l.line == "gemini" && t == "lite" {
				return l, true
			}
		case m != nil:
			l.size, _ = strconv.ParseFloat(m[1], 64)
			if times, err := strconv.ParseFloat(m[2], 64); err == nil {
				l.size *= times
			}
		}
	}
	return l, true
}

// apart is how different two models of one line are in size.
func (l lineage) apart(o lineage) float64 {
	switch {
	case l.size > 0 && o.size > 0:
		return math.Abs(math.Log(l.size / o.size))
	case l.size > 0 || o.size > 0:
		return 2
	}
	return math.Abs(l.rank - o.rank)
}

// relative is a model of the table that is of the same line as another one.
type relative struct {
	*knownQuality
	alike bool // it is about as large
	newer bool // than the one that it is a relative of
}

// relativeOf is the model of the table that is nearest to one by its name: of the same line, as large as can be, of
// these of the nearest version, and the newest.
func relativeOf(model string) (found relative, ok bool) {
	of, ok := lineageOf(ParseModelName(model).Name)
	if !ok {
		return found, false
	}
	least, between := math.Inf(1), math.Inf(1)
	for _, k := range knownModels().rows {
		l, _ := lineageOf(ParseModelName(k.name).Name)
		if l.line != of.line {
			continue
		}
		apart, versions := l.apart(of), 0.0
		if of.version > 0 && l.version > 0 {
			versions = math.Abs(of.version - l.version)
		}
		if apart < least || apart == least && (versions < between || versions == between && k.released > found.released) {
			const half = 0.75 // of the log of a size, or of a step between makers' words
			least, between, found = apart, versions, relative{k, apart < half, 0 < of.version && of.version < l.version}
		}
	}
	return found, found.knownQuality != nil
}

// sizesOf are the models of the table of a line whose names say how large they are, the newest of each size, from the
// smallest on.
func sizesOf(line string) (list []*knownQuality) {
	bySize := make(map[float64]*knownQuality)
	for _, k := range knownModels().rows {
		l, ok := lineageOf(ParseModelName(k.name).Name)
		if ok && l.line == line && l.size > 0 && (bySize[l.size] == nil || k.released > bySize[l.size].released) {
			bySize[l.size] = k
		}
	}
	for _, size := range slices.Sorted(maps.Keys(bySize)) {
		list = append(list, bySize[size])
	}
	return list
}

// likeSized is the newest model of the table that is about as large as one whose line nobody has measured.
func likeSized(model string) (found *knownQuality) {
	of, _ := lineageOf(ParseModelName(model).Name)
	least := math.Log(1.6)
	for _, k := range knownModels().rows {
		l, _ := lineageOf(ParseModelName(k.name).Name)
		if of.size == 0 || l.size == 0 {
			continue
		}
		apart := math.Abs(math.Log(l.size / of.size))
		if apart < least || apart == least && found != nil && k.released > found.released {
			least, found = apart, k
		}
	}
	return found
}
