package ratelimit

// table holds the windows of many subjects, in the order in which they were last asked about. A window is
// forgotten soon after it is empty: each question looks at a few of the oldest.
//
// The table keeps the map and the slices it has grown to, until they are mostly unused.
type table[K comparable] struct {
	index   map[K]uint32
	windows []window[K] // number 0 is the list's head: its newer is the oldest window, its older the newest one
	free    uint32      // the first of the unused windows, which are linked by newer
	blocks  blocks

	most    int   // bytes, above which the windows idle longest give way; 0: none ever does
	evicted int64 // how many did
}

// What a window and a block are reckoned at, in bytes: their size, the quarter by which their slices grow at a
// time, and the window's entry in the map, of 16 bytes in a table that may be half empty.
const (
	windowCost = 40*5/4 + 40
	blockCost  = 16 * 5 / 4
)

// sweep is how many windows a question looks at: more than the one that it may add, so that what is empty does not
// pile up, and few, so that nobody waits for it.
const sweep = 4

// smallest is the size, in windows, below which a table is not worth being made anew.
const smallest = 1024

// newest and oldest are the ends of the list; 0 when the table is empty.
func (t *table[K]) oldest() uint32 { return t.windows[0].newer }
func (t *table[K]) newest() uint32 { return t.windows[0].older }

func (t *table[K]) bytes() int { return len(t.index)*windowCost + t.blocks.used*blockCost }

// room is the first moment at which the subject has room for another request, and now when it has.
func (t *table[K]) room(key K, limit, now int64) int64 {
	t.forget(now)
	i, ok := t.index[key]
	if !ok {
		return now
	}
	t.unlink(i)
	t.link(i)
	w := &t.windows[i]
	w.expire(&t.blocks, now)
	if int64(w.count) < limit {
		return now
	}
	return w.room(&t.blocks, limit)
}

// add counts a request of a subject that has room. What was asked about in the same call does not give way to it.
func (t *table[K]) add(key K, now int64) {
	i, ok := t.index[key]
	if !ok {
		i = t.make(key)
		t.link(i)
	}
	w := &t.windows[i]
	w.add(&t.blocks, max(now, w.newest))
	for t.most > 0 && t.bytes() > t.most && len(t.index) > MaxAsks {
		t.remove(t.oldest())
		t.evicted++
	}
}

func (t *table[K]) make(key K) uint32 {
	if t.index == nil {
		t.index = make(map[K]uint32)
		t.windows = append(t.windows, window[K]{})
	}
	i := t.free
	if i != 0 {
		t.free = t.windows[i].newer
		t.windows[i] = window[K]{}
	} else {
		i = uint32(len(t.windows))
		t.windows = append(t.windows, window[K]{})
	}
	t.windows[i].key = key
	t.index[key] = i
	return i
}

func (t *table[K]) remove(i uint32) {
	t.unlink(i)
	w := &t.windows[i]
	w.clear(&t.blocks)
	delete(t.index, w.key)
	*w = window[K]{newer: t.free} // a key may be a text
	t.free = i
}

// link makes a window the newest of the list.
func (t *table[K]) link(i uint32) {
	last := t.newest()
	t.windows[i].older, t.windows[i].newer = last, 0
	t.windows[last].newer = i
	t.windows[0].older = i
}

func (t *table[K]) unlink(i uint32) {
	older, newer := t.windows[i].older, t.windows[i].newer
	t.windows[older].newer = newer
	t.windows[newer].older = older
}

// forget removes empty windows, a few at a time.
func (t *table[K]) forget(now int64) {
	for range sweep {
		if len(t.index) == 0 {
			break
		}
		i := t.oldest()
		if now-t.windows[i].newest < windowTicks {
			break // those behind it were asked about later
		}
		t.remove(i)
	}
	if len(t.windows) > smallest && len(t.index) < len(t.windows)/8 {
		t.shrink(now)
	}
}

// shrink makes the table anew, for a map never gives memory back.
func (t *table[K]) shrink(now int64) {
	small := table[K]{most: t.most, evicted: t.evicted}
	for i := t.oldest(); i != 0; i = t.windows[i].newer {
		w := &t.windows[i]
		w.expire(&t.blocks, now)
		if w.count == 0 {
			continue
		}
		n := small.make(w.key)
		small.link(n)
		place := w.first
		for b := w.head; b != 0; b = t.blocks.all[b].next {
			for ; place < blockLen && small.windows[n].count < w.count; place++ {
				small.windows[n].add(&small.blocks, w.moment(&t.blocks, b, place))
			}
			place = 0
		}
	}
	*t = small
}
