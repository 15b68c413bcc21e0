package ledger

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// window remembers the values of the last keys, by count and never by clock:
// putting one more forgets the one that was put first (spec §4.2). A key that
// is put again counts as the newest.
//
// A million entries must cost little more than their content. So they are stored
// in the order in which they were put, in chunks that come and go as the window
// moves, and an index of four bytes for each maps a key to its position. A key
// that is put again leaves a gap; before there are many, all entries are moved
// together. Nothing is deleted from the index: a position outside the window
// counts as free.
type window[V any] struct {
	most        int
	live, gaps  int
	first, next uint64       // positions in the window: from first to before next
	chunks      [][]entry[V] // of chunkLen entries; the last one, while it is the only one, may have less room
	dropped     uint64       // chunks that were in front of the first
	spare       []entry[V]
	index       []uint32 // 0: never used; else the top bit, a tag of the key's hash, the low bits of a position
	used        int      // of the index
	low         uint32   // mask of the bits of a position
	forget      func(V)  // nil, or told of what leaves the window
}

const chunkLen = 1 << 12

// entry keeps its key as bytes, so that it needs no padding where V needs
// none. The key 0 marks a gap.
type entry[V any] struct {
	key   [8]byte
	value V
}

func (e *entry[V]) is(k uint64) bool { return binary.LittleEndian.Uint64(e.key[:]) == k }

func newWindow[V any](most int) *window[V] { return &window[V]{most: most} }

// get returns the value of a key, to be read or changed in place until the next
// put; nil where it is not remembered.
func (w *window[V]) get(k uint64) *V {
	if len(w.index) == 0 || k == 0 {
		return nil
	}
	if _, p, ok := w.find(k); ok {
		return &w.at(p).value
	}
	return nil
}

// put makes a key, which is not 0, the newest, and returns its value to be set:
// the one that it had, or a zero one.
func (w *window[V]) put(k uint64) *V {
	if w.full() {
		w.reindex()
	}
	slot, p, known := w.find(k)
	var v V
	if known {
		if p == w.next-1 {
			return &w.at(p).value
		}
		v = w.at(p).value
		*w.at(p) = entry[V]{}
		w.live--
		w.gaps++
	}
	w.enter(slot, k, w.next)
	w.append(k, v)
	w.trim()
	if w.gaps > w.live/8+32 {
		w.compact()
	}
	return &w.at(w.next - 1).value
}

// all returns an iterator over the window, oldest first.
func (w *window[V]) all() iter.Seq2[uint64, *V] {
	return func(yield func(uint64, *V) bool) {
		for p := w.first; p < w.next; p++ {
			e := w.at(p)
			if k := binary.LittleEndian.Uint64(e.key[:]); k != 0 && !yield(k, &e.value) {
				return
			}
		}
	}
}

func (w *window[V]) at(p uint64) *entry[V] {
	return &w.chunks[p/chunkLen-w.dropped][p%chunkLen]
}

// append adds an entry that is in the index already, or will be entered.
func (w *window[V]) append(k uint64, v V) {
	if w.next%chunkLen == 0 {
		c := w.spare
		if w.spare = nil; c == nil && w.next > 0 {
			c = make([]entry[V], 0, chunkLen)
		}
		w.chunks = append(w.chunks, c)
	}
	e := entry[V]{value: v}
	binary.LittleEndian.PutUint64(e.key[:], k)
	last := &w.chunks[len(w.chunks)-1]
	*last = append(*last, e)
	w.next++
	w.live++
}

// trim forgets the oldest entries in excess, and the gaps around them.
func (w *window[V]) trim() {
	for w.live > w.most || w.first < w.next && w.at(w.first).is(0) {
		e := w.at(w.first)
		if e.is(0) {
			w.gaps--
		} else {
			w.live--
			if w.forget != nil {
				w.forget(e.value)
			}
			*e = entry[V]{}
		}
		w.first++
	}
	for w.first/chunkLen > w.dropped {
		w.spare, w.chunks[0] = w.chunks[0][:0], nil
		w.chunks = w.chunks[1:]
		w.dropped++
	}
}

// compact moves the entries together.
func (w *window[V]) compact() {
	to := w.first
	for p := w.first; p < w.next; p++ {
		e := w.at(p)
		if e.is(0) {
			continue
		}
		if p != to {
			*w.at(to) = *e
			*e = entry[V]{}
		}
		to++
	}
	w.next, w.gaps = to, 0
	keep := (to+chunkLen-1)/chunkLen - w.dropped
	clear(w.chunks[keep:])
	w.chunks = w.chunks[:keep]
	if n := to % chunkLen; n > 0 {
		w.chunks[keep-1] = w.chunks[keep-1][:n]
	}
	w.reindex()
}

// full reports whether one more key could make searches long.
func (w *window[V]) full() bool { return 8*(w.used+1) > 7*len(w.index) }

// reindex rebuilds the index, with room for the window to grow and to move on for a
// while. It reports whether every key is there only once.
func (w *window[V]) reindex() bool {
	size := max(64, min(2*w.live, w.most/4*5))
	if size != len(w.index) {
		w.index = make([]uint32, size)
	}
	clear(w.index)
	w.used = 0
	w.low = 1<<bits.Len(uint(2*size)) - 1 // more positions than the window ever spans
	unique := true
	for p := w.first; p < w.next; p++ {
		k := binary.LittleEndian.Uint64(w.at(p).key[:])
		if k == 0 {
			continue
		}
		slot, _, known := w.find(k)
		unique = unique && !known
		w.enter(slot, k, p)
	}
	return unique
}

// enter lets a slot of the index point to a position.
func (w *window[V]) enter(slot int, k, p uint64) {
	if w.index[slot] == 0 {
		w.used++
	}
	w.index[slot] = w.tag(mix(k)) | uint32(p)&w.low //nolint:gosec // the low bits
}

// tag returns the part of a key's hash that its slot holds, so that few entries are
// compared in vain.
func (w *window[V]) tag(hash uint64) uint32 {
	return 1<<31 | uint32(hash)&^w.low //nolint:gosec // the low bits
}

// find looks a key up. If it is not there, slot is where to enter it.
func (w *window[V]) find(k uint64) (slot int, p uint64, ok bool) {
	hash := mix(k)
	tag := w.tag(hash)
	home, _ := bits.Mul64(hash, uint64(len(w.index)))
	free := -1
	for i := int(home); ; i++ { //nolint:gosec // below the length of the index
		if i == len(w.index) {
			i = 0
		}
		x := w.index[i]
		age := (w.next - 1 - uint64(x)) & uint64(w.low) // 0: the newest
		switch {
		case x == 0 || age >= w.next-w.first:
			if free < 0 {
				free = i
			}
			if x == 0 {
				return free, 0, false
			}
		case x&^w.low == tag && w.at(w.next-1-age).is(k):
			return i, w.next - 1 - age, true
		}
	}
}

// mix spreads keys that are near each other over all bits.
func mix(k uint64) uint64 {
	k ^= k >> 30
	k *= 0xbf58476d1ce4e5b9
	k ^= k >> 27
	k *= 0x94d049bb133111eb
	return k ^ k>>31
}
