package runs

import "iter"

// List is a list in parts of a fixed length: lists that are the same in part share these parts. It is never changed.
type List[T any] struct {
	parts [][]T // all but the last one have partLen elements; none is empty
	n     int
}

const partLen = 32

// Len returns the number of elements.
func (l *List[T]) Len() int { return l.n }

// At returns an element. It may be shared: read only.
func (l *List[T]) At(i int) *T { return &l.parts[uint(i)/partLen][uint(i)%partLen] }

// Parts returns the number of parts. Lists that continue each other share them.
func (l *List[T]) Parts() int { return len(l.parts) }

// Part returns the elements of a part, and the index of the first one. They may be shared: read only.
func (l *List[T]) Part(p int) (elements []T, first int) { return l.parts[p], p * partLen }

// All yields the elements with their indices.
func (l *List[T]) All() iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for p, part := range l.parts {
			for i := range part {
				if !yield(p*partLen+i, &part[i]) {
					return
				}
			}
		}
	}
}

// isPart reports whether a part is one of another list as well, with the same number.
func (l *List[T]) isPart(other *List[T], p int) bool {
	return p < len(l.parts) && p < len(other.parts) && len(l.parts[p]) == len(other.parts[p]) &&
		&l.parts[p][0] == &other.parts[p][0]
}

// others yields the elements, with their indices, of the parts that are none of another list.
func (l *List[T]) others(than *List[T]) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for p := range l.parts {
			if l.isPart(than, p) {
				continue
			}
			for i := range l.parts[p] {
				if !yield(p*partLen+i, &l.parts[p][i]) {
					return
				}
			}
		}
	}
}

// maker makes a list from its first element on. It shares the parts that it keeps of another list as a whole.
type maker[T any] struct {
	List[T]
	base List[T]
	size int // what the list's length will probably be
}

func newMaker[T any](base List[T], size int) maker[T] {
	return maker[T]{List: List[T]{parts: make([][]T, 0, (size+partLen-1)/partLen)}, base: base, size: size}
}

// keep appends the next n elements of the base: those with the indices that they get.
func (m *maker[T]) keep(n int) {
	for end := m.n + n; m.n < end; {
		p, from := m.n/partLen, m.n%partLen
		to := min(partLen, from+end-m.n)
		switch part := m.base.parts[p]; {
		case from == 0:
			m.parts = append(m.parts, part[:to:to])
		case m.shares(p):
			m.parts[p] = part[:to:to]
		default:
			m.parts[p] = append(m.parts[p], part[from:to]...)
		}
		m.n += to - from
	}
}

// append appends elements.
func (m *maker[T]) append(elements ...T) {
	for len(elements) > 0 {
		p, from := m.n/partLen, m.n%partLen
		if from == 0 {
			m.parts = append(m.parts, m.room(p))
		} else {
			m.own(p)
		}
		n := min(partLen-from, len(elements))
		m.parts[p] = append(m.parts[p], elements[:n]...)
		m.n += n
		elements = elements[n:]
	}
}

// take appends elements of the base, from one to another. Those with the same indices are kept.
func (m *maker[T]) take(from, to int) {
	if from == m.n {
		m.keep(to - from)
		return
	}
	for i := from; i < to; i++ {
		m.append(*m.base.At(i))
	}
}

// set replaces an element.
func (m *maker[T]) set(i int, element T) {
	m.own(i / partLen)
	m.parts[i/partLen][i%partLen] = element
}

// own copies a part that is the base's.
func (m *maker[T]) own(p int) {
	if m.shares(p) {
		m.parts[p] = append(m.room(p), m.parts[p]...)
	}
}

// shares reports whether a part is the base's.
func (m *maker[T]) shares(p int) bool {
	return p < len(m.base.parts) && &m.parts[p][0] == &m.base.parts[p][0]
}

// room returns an empty part with room for its elements.
func (m *maker[T]) room(p int) []T { return make([]T, 0, max(0, min(partLen, m.size-p*partLen))) }
