package config

import "time"

func (l *loader) affinity(file *section) Affinity {
	a := Affinity{Mode: AffinityOn, TTL: time.Hour}
	for _, block := range file.blocks["affinity"] {
		s := l.open(block, &affinityGrammar)
		mode := string(a.Mode)
		s.oneOf("mode", &mode)
		a.Mode = AffinityMode(mode)
		s.duration("ttl", &a.TTL)
	}
	return a
}
