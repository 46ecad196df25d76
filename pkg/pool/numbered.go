package pool

// Numbered are different values with numbers: 0, 1, … in the order in which they were met. The zero Numbered has none.
type Numbered[T comparable] struct {
	All     []T // by number
	numbers map[T]int32
	last    int32 // the last one returned
}

// In returns the value of a key in a map, a new one if there is none.
func In[K comparable, V any](values map[K]*V, key K) *V {
	value := values[key]
	if value == nil {
		value = new(V)
		values[key] = value
	}
	return value
}

// NewNumbered returns none, with memory for n values.
func NewNumbered[T comparable](n int) Numbered[T] {
	return Numbered[T]{All: make([]T, 0, n), numbers: make(map[T]int32, n)}
}

// Number returns the number of a value, the next one if it was not met before. Repeating the same value is quick.
func (n *Numbered[T]) Number(v T) int32 {
	if int(n.last) < len(n.All) && n.All[n.last] == v {
		return n.last
	}
	number, ok := n.numbers[v]
	if !ok {
		if n.numbers == nil {
			n.numbers = map[T]int32{}
		}
		number = int32(len(n.All))
		n.numbers[v], n.All = number, append(n.All, v)
	}
	n.last = number
	return number
}

// Find returns the number of a value; ok is false if it was not met.
func (n *Numbered[T]) Find(v T) (number int32, ok bool) {
	number, ok = n.numbers[v]
	return number, ok
}
