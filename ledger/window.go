package ledger

// window remembers the values of the last keys, by count and never by clock:
// putting one more forgets the one that was put first (spec §4.2). A key that
// is put again counts as the newest.
type window[K comparable, V any] struct {
	most  int
	byKey map[K]*slot[K, V]
	first *slot[K, V] // put longest ago
	last  *slot[K, V]
}

type slot[K comparable, V any] struct {
	key        K
	value      V
	prev, next *slot[K, V]
}

func newWindow[K comparable, V any](most int) *window[K, V] {
	return &window[K, V]{most: most, byKey: map[K]*slot[K, V]{}}
}

func (w *window[K, V]) get(k K) (V, bool) {
	if s, ok := w.byKey[k]; ok {
		return s.value, true
	}
	var zero V
	return zero, false
}

func (w *window[K, V]) put(k K, v V) {
	s, ok := w.byKey[k]
	if ok {
		w.unlink(s)
	} else {
		s = &slot[K, V]{key: k}
		w.byKey[k] = s
		if len(w.byKey) > w.most {
			delete(w.byKey, w.first.key)
			w.unlink(w.first)
		}
	}
	s.value = v
	s.prev, s.next = w.last, nil
	if w.last != nil {
		w.last.next = s
	} else {
		w.first = s
	}
	w.last = s
}

func (w *window[K, V]) unlink(s *slot[K, V]) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		w.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		w.last = s.prev
	}
	s.prev, s.next = nil, nil
}
