package plugin

import (
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// answersStand is how long an answer stands for equal questions: viewers of one dashboard ask within a moment of each
// other, and its panels at the same refresh.
const answersStand = time.Second

// recent keeps answers for a moment. The zero value keeps none.
type recent struct {
	max   int64         // bytes of all answers
	stand time.Duration // how long an answer stands

	mu    sync.Mutex
	bytes int64
	kept  map[string]*recentAnswer
}

type recentAnswer struct {
	frames data.Frames // shared: read only
	until  time.Time
}

// find returns the answer to an equal question of a moment ago.
func (r *recent) find(key string) (data.Frames, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.kept[key]
	if a == nil || time.Now().After(a.until) {
		return nil, false
	}
	return copies(a.frames), true
}

// keep keeps an answer for a moment if there is room for it.
func (r *recent) keep(key string, frames data.Frames) {
	size := int64(len(key)) + bytesOf(frames)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+size > r.max || r.kept[key] != nil {
		return
	}
	if r.kept == nil {
		r.kept = map[string]*recentAnswer{}
	}
	r.bytes += size
	r.kept[key] = &recentAnswer{frames, time.Now().Add(r.stand)}
	time.AfterFunc(r.stand, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.kept, key)
		r.bytes -= size
	})
}

// bytesOf is about what frames take: a value, or the header of a text, in each row.
func bytesOf(frames data.Frames) (n int64) {
	const perFrame, perField, perValue = 1024, 256, 24
	for _, f := range frames {
		n += perFrame
		for _, field := range f.Fields {
			n += perField + perValue*int64(field.Len())
		}
	}
	return n
}
