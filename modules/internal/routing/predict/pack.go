package predict

import (
	"encoding/binary"
	"hash/fnv"
	"math"
)

// How finely a packed signal is kept: far finer than its predictions are right.
const (
	packHeads = 1024.0  // steps of a head's deviation
	packStats = 31.0    // steps of a statistic's deviation: from -4 to 4 in a byte
	packShare = 65535.0 // steps from 0 to 1
	packGrade = 1024.0  // steps of log odds, and of the logarithm of a length
)

// Fingerprint tells models apart: a signal means nothing to another one.
func (m *Model) Fingerprint() uint32 {
	h := fnv.New32a()
	var b []byte
	add := func(values ...float32) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	add(m.Mean...)
	add(m.Dev...)
	add(m.Scale...)
	for i := range m.Heads {
		add(m.Heads[i].Mean, m.Heads[i].Dev)
		add(m.Heads[i].Stats...)
	}
	if m.Grader != nil {
		add(m.Grader.Scale...)
		for i := range m.Grader.Heads {
			add(m.Grader.Heads[i].Bias)
			add(m.Grader.Heads[i].Weights...)
		}
	}
	_, _ = h.Write(b) // a hash takes everything
	return h.Sum32()
}

// PackedSize is how many bytes Pack appends.
func (m *Model) PackedSize() int { return 2*(4+int(NumKinds)+len(m.Heads)) + NumStats }

// Pack appends a signal of this model in little room, rounded. No word of the text can be told from it.
func (m *Model) Pack(b []byte, s *Signal) []byte {
	b = binary.LittleEndian.AppendUint16(b, steps(s.Trust, packShare))
	b = binary.LittleEndian.AppendUint16(b, steps(s.Understood, packShare))
	for _, share := range s.Kinds {
		b = binary.LittleEndian.AppendUint16(b, steps(share, packShare))
	}
	for _, v := range []float32{s.Grade, s.Length} {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(rounded(v*packGrade, math.MaxInt16))))
	}
	for h := range m.Heads {
		head := &m.Heads[h]
		z := s.raw[h] - head.Mean
		if head.Dev != 0 {
			z /= head.Dev
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(rounded(z*packHeads, math.MaxInt16))))
	}
	for _, x := range s.x[s.heads : s.heads+NumStats] {
		b = append(b, byte(int8(rounded(x*packStats, math.MaxInt8))))
	}
	return b
}

// Unpack fills a signal from what Pack made of one; false for what it did not make.
func (m *Model) Unpack(b []byte, s *Signal) bool {
	if len(b) != m.PackedSize() {
		return false
	}
	next := func() uint16 {
		v := binary.LittleEndian.Uint16(b)
		b = b[2:]
		return v
	}
	s.begin(m)
	s.Trust = float32(next()) / packShare
	s.Understood = float32(next()) / packShare
	for k := range s.Kinds {
		s.Kinds[k] = float32(next()) / packShare
	}
	s.Grade, s.Length = float32(int16(next()))/packGrade, float32(int16(next()))/packGrade
	for h := range m.Heads {
		head := &m.Heads[h]
		z := float32(int16(next())) / packHeads
		if head.Dev != 0 {
			z *= head.Dev
		}
		s.raw[h] = z + head.Mean
		s.x[h] = standard(s.raw[h], head.Mean, head.Dev)
	}
	for j := range s.x[s.heads : s.heads+NumStats] {
		s.x[s.heads+j] = float32(int8(b[j])) / packStats
	}
	return true
}

func steps(share float32, of float64) uint16 {
	return uint16(math.Round(float64(min(max(share, 0), 1)) * of))
}

// rounded is the nearest whole number that is at most so far from 0.
func rounded(v float32, most float64) float64 {
	return math.Round(min(max(float64(v), -most), most))
}
