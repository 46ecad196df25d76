package pool

// Numbered are different values with numbers: 0, 1, … in the order in which they were met. The zero Numbered has none.
type Numbered[T comparable] struct {
	All     []T // by number
	numbers map[T]int32
	last    [2]int32 // the last two different ones returned
}

// Number returns the number of a value, the next one if it was not met before. Repeating one of the last two values is
// quick.
func (n *Numbered[T]) Number(v T) int32 {
	for i, last := range n.last {
		if int(last) < len(n.All) && n.All[last] == v {
			n.last[0], n.last[1] = last, n.last[1-i]
			return last
		}
	}
	number, ok := n.numbers[v]
	if !ok {
		if n.numbers == nil {
			n.numbers = map[T]int32{}
		}
		number = int32(len(n.All))
		n.numbers[v], n.All = number, append(n.All, v)
	}
	n.last = [2]int32{number, n.last[0]}
	return number
}

// Find returns the number of a value; ok is false if it was not met.
func (n *Numbered[T]) Find(v T) (number int32, ok bool) {
	number, ok = n.numbers[v]
	return number, ok
}
