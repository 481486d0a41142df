package ratelimit

// A moment is kept in microseconds, and of that the lowest 32 bits, which begin again after 71 minutes: all
// moments of a window lie within 60 seconds of its newest one, which is kept whole.
const windowTicks = int64(Window / tick)

// window holds the moments of one subject's requests in the last 60 seconds, oldest first, in a chain of blocks.
// Those of all windows lie in one slice, and so do the blocks: neither has pointers for the garbage collector to
// follow, and a million of them are a few large pieces.
type window[K comparable] struct {
	newest int64  // the last moment
	newer  uint32 // the neighbours in the table's list, by their index
	older  uint32
	head   uint32 // the first and the last block, by their index
	tail   uint32
	count  uint32
	first  uint8 // the place of the oldest moment in the first block
	key    K
}

// block is a part of a window. Most addresses send a request or two in a minute: larger blocks would waste more
// on them than their links cost the busy ones.
type block struct {
	moments [blockLen]uint32
	next    uint32 // 0 for none; in the list of free blocks too
}

const blockLen = 3

// blocks hands out blocks of one slice. Number 0 is nobody's.
type blocks struct {
	all  []block
	free uint32
	used int
}

func (b *blocks) take() uint32 {
	b.used++
	if i := b.free; i != 0 {
		b.free = b.all[i].next
		b.all[i].next = 0
		return i
	}
	if len(b.all) == 0 {
		b.all = append(b.all, block{})
	}
	b.all = append(b.all, block{})
	return uint32(len(b.all) - 1)
}

// give takes n linked blocks back, from head to tail.
func (b *blocks) give(head, tail uint32, n int) {
	b.used -= n
	b.all[tail].next = b.free
	b.free = head
}

// add counts a request at a moment that is not before the newest one.
func (w *window[K]) add(b *blocks, moment int64) {
	end := (uint32(w.first) + w.count) % blockLen
	if end == 0 {
		fresh := b.take()
		if w.count == 0 {
			w.head, w.first = fresh, 0
		} else {
			b.all[w.tail].next = fresh
		}
		w.tail = fresh
	}
	b.all[w.tail].moments[end] = uint32(moment)
	w.count++
	w.newest = moment
}

// expire lets go of what is over at a moment.
func (w *window[K]) expire(b *blocks, now int64) {
	if w.count == 0 {
		return
	}
	if now-w.newest >= windowTicks {
		w.clear(b)
		return
	}
	for now-w.moment(b, w.head, w.first) >= windowTicks {
		w.count--
		w.first++
		if w.first == blockLen {
			done := w.head
			w.head, w.first = b.all[done].next, 0
			b.give(done, done, 1)
		}
	}
}

// clear lets go of everything.
func (w *window[K]) clear(b *blocks) {
	if w.count > 0 {
		b.give(w.head, w.tail, w.size())
	}
	w.head, w.tail, w.first, w.count = 0, 0, 0, 0
}

// size is how many blocks the window has.
func (w *window[K]) size() int { return (int(w.first) + int(w.count) + blockLen - 1) / blockLen }

// moment is the whole of a moment in a block. The newest one is at most 60 seconds later.
func (w *window[K]) moment(b *blocks, i uint32, place uint8) int64 {
	return w.newest - int64(uint32(w.newest)-b.all[i].moments[place])
}

// room is the first moment at which fewer than limit requests count, when limit or more do at the moment.
func (w *window[K]) room(b *blocks, limit int64) int64 {
	// What has to end first is the oldest request; more of them after a limit was lowered.
	place := int64(w.first) + int64(w.count) - limit
	i := w.head
	for ; place >= blockLen; place -= blockLen {
		i = b.all[i].next
	}
	return w.moment(b, i, uint8(place)) + windowTicks
}
