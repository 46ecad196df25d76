package jobs

import (
	"strings"
	"sync"
	"unique"
)

// journal remembers which answers were replaced by different ones, the latest of them.
type journal struct {
	mu       sync.Mutex
	replaced []cacheKey
	dropped  uint64 // that came before them
}

// mostReplaced bounds what a journal remembers; half of it is forgotten at a time.
const mostReplaced = 1 << 15

func (j *journal) add(replaced cacheKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.replaced) == mostReplaced {
		j.replaced, j.dropped = append([]cacheKey(nil), j.replaced[mostReplaced/2:]...), j.dropped+mostReplaced/2
	}
	j.replaced = append(j.replaced, replaced)
}

// position is how many answers were replaced so far.
func (j *journal) position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped + uint64(len(j.replaced))
}

// since adds the answers of a source that were replaced since a position; without those, if that was too long ago, they
// stay lost.
func (j *journal) since(position uint64, source unique.Handle[string], now *Changes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if position < j.dropped {
		return
	}
	now.Lost = false
	for _, k := range j.replaced[position-j.dropped:] {
		switch {
		case k.source != source:
		case strings.Contains(k.key, zeroByte):
			now.Days = append(now.Days, k.key)
		default:
			now.Jobs = append(now.Jobs, k.key)
		}
	}
}

// Since implements [Remembering].
func (s *cached) Since(mark Mark) Changes {
	name := unique.Make(s.name())
	now := Changes{Mark: Mark{name.Value(), s.cache.changes.position()}, Now: s.cache.now(), Lost: true}
	if mark.source == now.Mark.source {
		s.cache.changes.since(mark.position, name, &now)
	}
	return now
}
