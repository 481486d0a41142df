package learn

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// How lines that frame questions are told. Chosen by makes of dress that training has not seen.
const (
	frameCost   = 15
	frameEpochs = 20
	frameBias   = 0.8
)

// TrainFrames learns which lines frame a question, from the dresses of a corpus that training may see, its prompts and
// those of data sets. It makes predict/frame.model.
func TrainFrames(c *Corpus, sets []*Dataset, seed uint64) []byte {
	var xs []sparse
	var y [][]float64
	var count [2]float64
	add := func(text string, framed bool) {
		lines := bytes.Split(predict.Untag([]byte(text)), []byte("\n"))
		seen := 0
		for _, line := range lines {
			if len(bytes.TrimSpace(line)) == 0 || seen == 40 {
				continue
			}
			seen++
			l := predict.NewLine()
			predict.ReadLine(line, l)
			x := sparse{}
			slices.Sort(l.Words)
			v := 1 / float32(math.Sqrt(float64(max(len(l.Words), 1))))
			for i, w := range l.Words {
				if i > 0 && w == l.Words[i-1] {
					x.value[len(x.value)-1] += v
					continue
				}
				x.at, x.value = append(x.at, int32(w)), append(x.value, v)
			}
			for i, has := range l.Forms {
				if has {
					x.at, x.value = append(x.at, int32(predict.FrameWords+i)), append(x.value, 0.5)
				}
			}
			label := 0.0
			if framed {
				label = 1
			}
			xs, y = append(xs, x), append(y, []float64{label})
			count[int(label)]++
		}
	}
	for _, list := range [][]Dress{c.Dresses.Before, c.Dresses.Behind, c.Dresses.Wrap, c.Dresses.System} {
		for _, d := range list {
			if !heldOut(d.Make) {
				add(strings.ReplaceAll(d.Text, "{question}", "\n"), true)
			}
		}
	}
	for _, d := range c.Dresses.Plain {
		for range 3 {
			add(d.Text, false)
		}
	}
	for i := range c.Prompts {
		if g := &c.Prompts[i]; !g.Held() {
			add(g.Prompt, false)
		}
	}
	for _, d := range sets {
		for i := range d.Rows {
			if i%12 == 0 {
				add(d.Rows[i].Prompt, false)
			}
		}
	}
	var pick []int
	for i := range xs {
		if y[i][0] == 1 { // as much as questions have lines
			for range int(count[0]/count[1]/2) - 1 {
				xs, y = append(xs, xs[i]), append(y, y[i])
			}
		}
	}
	for i := range xs {
		pick = append(pick, i)
	}
	w := logistic(xs, y, pick, predict.NumFrame, 1, nil, nil, frameCost, frameEpochs, seed)
	for i := predict.FrameWords; i < len(w); i++ {
		w[i] *= 0.5
	}
	w[predict.FrameWords] += frameBias
	top := float32(0)
	for _, v := range w {
		top = max(top, v, -v)
	}
	out := make([]byte, 0, len(w)+4)
	for _, v := range w {
		out = append(out, byte(int8(math.Round(float64(v/top*127)))))
	}
	return binary.LittleEndian.AppendUint32(out, math.Float32bits(top/127))
}
