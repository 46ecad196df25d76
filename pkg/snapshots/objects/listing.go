package objects

import (
	"maps"
	"sync"

	"github.com/maypok86/otter/v2"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
)

// listing is the state of a bucket when it was listed last: its objects, and the ends of those that were read. It
// is safe for concurrent use.
type listing struct {
	mu      sync.Mutex
	objects map[string]bucket.Object // by key
	differ  map[string]bool          // versions whose objects have another ETag than in the listing

	// by key and version: ends of objects, the small ones as a whole; and objects that can only be read as a whole
	ends, wholes *otter.Cache[string, []byte]
}

// keptEnds bounds the bytes of the ends. They are kept because the current day is read again and again.
const keptEnds = 32 << 20

// newListing returns an empty listing.
func newListing() *listing {
	return &listing{ends: newBytes(keptEnds), wholes: newBytes(pool.MostObject)}
}

func newBytes(max uint64) *otter.Cache[string, []byte] {
	return otter.Must(&otter.Options[string, []byte]{
		MaximumWeight: max,
		Weigher:       func(_ string, data []byte) uint32 { return uint32(len(data)) },
		Executor:      func(maintain func()) { maintain() },
	})
}

// replace takes the objects that are there now, and drops what is known of those that are gone.
func (l *listing) replace(objects map[string]bucket.Object) {
	there := map[string]bool{}
	for _, o := range objects {
		there[version{o}.id()] = true
	}
	for _, kept := range []*otter.Cache[string, []byte]{l.ends, l.wholes} {
		for id := range kept.Keys() {
			if !there[id] {
				kept.Invalidate(id)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.differ, func(id string, _ bool) bool { return !there[id] })
	l.objects = objects
}

// object returns the object of a key.
func (l *listing) object(key string) (o bucket.Object, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok = l.objects[key]
	return o, ok
}

// contradict notes that the object of a version has another ETag than in the listing.
func (l *listing) contradict(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.differ == nil {
		l.differ = map[string]bool{}
	}
	l.differ[id] = true
}

// contradicted reports whether the object of a version has another ETag than in the listing.
func (l *listing) contradicted(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.differ[id]
}
