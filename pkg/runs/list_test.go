package runs

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// values are a list's elements, as At and All give them.
func values(t require.TestingT, l *List[int]) (all []int) {
	for i, v := range l.All() {
		require.Equal(t, len(all), i)
		require.Same(t, l.At(i), v)
		all = append(all, *v)
	}
	require.Len(t, all, l.Len())
	return all
}

// Lists that are made of each other hold what plain slices do, never change, and share the parts that they keep.
func TestListsByDefinition(t *testing.T) {
	shared := 0
	rapid.Check(t, func(rt *rapid.T) {
		var base List[int]
		var plain []int
		element := 0
		for range rapid.IntRange(1, 6).Draw(rt, "lists") {
			m := newMaker(base, rapid.IntRange(0, 300).Draw(rt, "size"))
			var want []int
			var kept []bool // of each element: nothing else was put in its place
			for range rapid.IntRange(0, 12).Draw(rt, "steps") {
				switch n := rapid.IntRange(0, 100).Draw(rt, "elements"); rapid.SampledFrom([]string{"keep", "append",
					"set"}).Draw(rt, "step") {
				case "keep":
					n = max(0, min(n, len(plain)-len(want)))
					m.keep(n)
					want = append(want, plain[min(len(want), len(plain)):][:n]...)
					kept = append(kept, slices.Repeat([]bool{true}, n)...)
				case "append":
					for range n {
						element++
						want, kept = append(want, element), append(kept, false)
					}
					m.append(want[len(want)-n:]...)
				case "set":
					if n < len(want) {
						element++
						m.set(n, element)
						want[n], kept[n] = element, false
					}
				}
			}
			made := m.List
			require.Equal(rt, plain, values(rt, &base), "the base is not changed")
			require.Equal(rt, want, values(rt, &made))
			for from := 0; from < len(want); from += partLen {
				keeps := !slices.Contains(kept[from:min(from+partLen, len(want))], false)
				require.Equal(rt, keeps, from < base.Len() && made.At(from) == base.At(from), "the part from %d on", from)
				if keeps {
					shared++
				}
			}
			base, plain = made, want
		}
	})
	require.Positive(t, shared)
}
