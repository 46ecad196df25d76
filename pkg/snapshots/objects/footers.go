package objects

import (
	"maps"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// footers are those of the objects of a bucket, by ETag, and the listing that they are of. place.mu is held.
type footers struct {
	dir     string // where they are kept for the next process; "" = nowhere
	read    bool   // from dir
	byETag  map[string][]byte
	changed bool
	written time.Time
	before  kept // what an earlier process listed
}

// How often they are written at most, and at least while there are looks, so that the age of the listing is right.
const (
	keepEvery     = time.Minute
	keepUnchanged = 10 * time.Minute
)

// restore reads what an earlier process kept. What is damaged is left, and written over.
func (f *footers) restore() {
	if f.read || f.dir == "" {
		return
	}
	f.read = true
	before, err := readKept(f.dir)
	if err != nil {
		return
	}
	f.before = before
	for _, o := range before.Objects {
		if o.Footer != nil && f.byETag[o.ETag] == nil {
			f.byETag[o.ETag] = o.Footer
		}
	}
}

// add takes the end of an object.
func (f *footers) add(etag string, end []byte) {
	if f.byETag[etag] != nil {
		return
	}
	if footer := footerOf(end); footer != nil {
		f.byETag[etag], f.changed = footer, true
	}
}

// only drops the footers of objects that are gone.
func (f *footers) only(there map[string]bool) {
	maps.DeleteFunc(f.byETag, func(etag string, _ []byte) bool { return !there[etag] })
}

// Looked implements months.Recalling.
func (p *place) Looked() {
	p.mu.Lock()
	f := &p.footers
	age := time.Since(f.written)
	if f.dir == "" || age < keepEvery || !f.changed && age < keepUnchanged {
		p.mu.Unlock()
		return
	}
	f.written, f.changed = time.Now(), false
	now := kept{Listed: p.listedAt}
	for _, key := range slices.Sorted(maps.Keys(p.objects)) {
		o := p.objects[key]
		now.Objects = append(now.Objects, keptObject{o, f.byETag[o.ETag]})
	}
	p.mu.Unlock()
	_ = now.write(f.dir) // it only saves time, or helps where nothing else does
}

// Recall implements months.Recalling.
func (p *place) Recall() (all []months.Listed, listed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.footers.restore()
	p.objects = map[string]bucket.Object{}
	for _, o := range p.footers.before.Objects {
		if l, ok := p.describe(o.Object); ok {
			p.objects[o.Key] = o.Object
			all = append(all, l)
		}
	}
	return all, p.footers.before.Listed
}
