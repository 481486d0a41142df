package predict

import "math"

// place is where a conversation stands among a pool's tasks.
type place struct {
	tasks  [MaxTasks]float32 // how likely it is of each; the sum is 1
	within float64           // by how much it is easier than its task, in log odds
	trust  float64           // from 0 to 1, in what the pool has learned of its tasks
}

// distance is how far a pool's nearest task is, squared.
type distance struct {
	pool *Pool
	d    float32
}

// task finds the place among the pool's tasks, once for all its routes. Where there is no trust it is of none of them.
func (p *Pool) task(s *Signal) {
	if s.tasked == p {
		return
	}
	s.tasked, s.place.trust = p, p.trust(s)
	if s.place.trust > 0 {
		p.find(s, &s.place)
	}
}

// Trust is how far the pool knows such a text and its task, from 0 to 1.
func (p *Pool) Trust(s *Signal) float64 {
	p.task(s)
	return s.place.trust
}

func (p *Pool) trust(s *Signal) float64 { return min(float64(s.Trust), p.near(s)) }

// find fills in of which tasks the conversation is, and how easy it is among theirs.
func (p *Pool) find(s *Signal, at *place) {
	var odds [MaxTasks]float64
	top := math.Inf(-1)
	for t := range p.Tasks {
		odds[t] = p.Tasks[t].Odds.at(s)
		top = max(top, odds[t])
	}
	sum := 0.0
	for t := range p.Tasks {
		odds[t] = math.Exp(odds[t] - top)
		sum += odds[t]
	}
	const little = 0.01 // what is unlikely is not worth the time
	at.within = p.Within.at(s)
	for t := range p.Tasks {
		share := odds[t] / sum
		at.tasks[t] = float32(share)
		if by := &p.Tasks[t].Within; len(by.Weights) > 0 && share > little {
			at.within += share * by.at(s)
		}
	}
}

// easier is by how much easier than others of its task the conversation is, in log odds, as pools tell that know such
// a task: 0 where none does. It is the mean of what they say, by the root of their size.
func (s *Signal) easier() float64 {
	if s.asked {
		return s.ease
	}
	s.asked, s.ease = true, 0
	var sum, weights, most float64
	var at place
	for i := range s.pools {
		p := &s.pools[i]
		trust := p.trust(s)
		if trust <= 0 || p.Outcomes {
			continue
		}
		p.find(s, &at)
		w := math.Sqrt(float64(p.Rows)) * trust
		sum += w * min(max(at.within, -2), 2)
		weights += w
		most = max(most, trust)
	}
	if weights > 0 {
		s.ease = most * sum / weights
	}
	return s.ease
}

// What is near enough to the pool's tasks.
const (
	within = 1.3 // times Pool.Near: the same task in other words can be as far
	beyond = 2.5
	other  = 0.7 // of the distance: where another pool's task is as close, the prompt is of that one
	own    = 1.2 // and where none is, of this one
)

// near is 1 where the prompt is about as near to one of the pool's tasks as its own are, and nearer than to those of
// other pools; 0 where it is far from all of them, or of another pool's. The words of a text can all be known and yet
// nothing be known of the task.
func (p *Pool) near(s *Signal) float64 {
	if p.Near <= 0 {
		return 1
	}
	s.measure()
	if p.Outcomes { // whoever else knows such a task
		near := (beyond - p.distance(s, beyond*p.Near)/p.Near) / (beyond - within)
		return float64(min(max(near, 0), 1))
	}
	here, there := s.nearest[0].d, s.nearest[1].d
	if s.nearest[0].pool != p {
		const little = 1e-6 // farther than the centre of another pool's task is not at one's own
		here, there = p.distance(s, min(beyond*p.Near, here/other+little)), here
	}
	near := (beyond - here/p.Near) / (beyond - within)
	if here > 0 {
		near = min(near, (there/here-other)/(own-other))
	}
	return float64(min(max(near, 0), 1))
}

// measure finds the two pools whose tasks are nearest, once.
func (s *Signal) measure() {
	if s.measured {
		return
	}
	s.measured = true
	Whiten(s.whiten, s.x[:s.heads+NumStats], s.white[:])
	far := distance{d: float32(math.Inf(1))}
	s.nearest = [2]distance{far, far}
	for i := range s.pools {
		p := &s.pools[i]
		if p.Outcomes {
			continue
		}
		d := distance{p, p.distance(s, s.nearest[1].d)}
		if d.d < s.nearest[0].d {
			s.nearest[0], s.nearest[1] = d, s.nearest[0]
		} else if d.d < s.nearest[1].d {
			s.nearest[1] = d
		}
	}
}

// distance is how far the nearest of the pool's tasks is, squared; no more than most.
func (p *Pool) distance(s *Signal, most float32) float32 {
	white := s.white[:s.heads+NumStats]
	for t := range p.Tasks {
		most = min(most, apart(p.Tasks[t].Centre, white, most))
	}
	return most
}

// apart is the square of the distance between two places, or some of it that is more than most. It adds up four sums
// at once, which do not wait for each other.
func apart(a, b []float32, most float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+3 < len(a); i += 4 {
		d0, d1, d2, d3 := a[i]-b[i], a[i+1]-b[i+1], a[i+2]-b[i+2], a[i+3]-b[i+3]
		s0, s1, s2, s3 = s0+d0*d0, s1+d1*d1, s2+d2*d2, s3+d3*d3
		if i&12 == 12 && s0+s1+s2+s3 > most {
			return s0 + s1 + s2 + s3
		}
	}
	for ; i < len(a); i++ {
		s0 += (a[i] - b[i]) * (a[i] - b[i])
	}
	return s0 + s1 + s2 + s3
}

// Whiten multiplies x by the rows of a lower triangle (Model.Whiten), into out.
func Whiten(triangle, x, out []float32) {
	for i := range x {
		out[i], triangle = dot(triangle[:i+1], x), triangle[i+1:]
	}
}
