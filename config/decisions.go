package config

const (
	// maxDecisionAge is longer than anybody looks back.
	maxDecisionAge = 366 * day
	// maxDecisions are some 30 GB.
	maxDecisions = 100_000_000
)

// DefaultDecisionLog is what holds without a decision_log block.
func DefaultDecisionLog() DecisionLog {
	return DecisionLog{Mode: DecisionsOn, Keep: 14 * day, MaxRequests: 1_000_000}
}

func (l *loader) decisionLog(file *section) DecisionLog {
	d := DefaultDecisionLog()
	for _, block := range file.blocks["decision_log"] {
		s := l.open(block, &decisionLogGrammar)
		mode := string(d.Mode)
		s.oneOf("mode", &mode)
		d.Mode = DecisionMode(mode)
		s.duration("keep", &d.Keep)
		s.integer("max_requests", &d.MaxRequests)
	}
	return d
}
