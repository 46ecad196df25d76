package objects

import (
	"sync"
	"time"
	"weak"

	"github.com/maypok86/otter/v2"

	"github.com/chtc/gpureports/pkg/bucket"
)

// Listing is the state of a bucket when it was listed last: its objects, and the ends of those that were read. Sources
// answer from it while the bucket cannot be reached. It is safe for concurrent use.
type Listing struct {
	mu      sync.Mutex
	objects map[string]bucket.Object // by key
	at      time.Time
	ends    *otter.Cache[string, []byte] // by key and version; small objects as a whole
}

// keptEnds bounds the bytes of the ends. They are kept because the current day is read again and again.
const keptEnds = 32 << 20

// NewListing returns an empty listing.
func NewListing() *Listing {
	return &Listing{ends: otter.Must(&otter.Options[string, []byte]{
		MaximumWeight: keptEnds,
		Weigher:       func(_ string, end []byte) uint32 { return uint32(len(end)) },
		Executor:      func(maintain func()) { maintain() },
	})}
}

// listings are the listings in this process that are in use.
var listings struct {
	sync.Mutex
	byOwner map[string]weak.Pointer[Listing]
}

// ListingOf returns the listing that sources of an owner use for a bucket, or an empty one if there are none. So a data
// source whose settings were saved, which is a new one, begins with the listing of the one before.
func ListingOf(owner string, o bucket.Options) *Listing {
	key := owner + "\x00" + o.Endpoint + "\x00" + o.Name() + "\x00" + o.AccessKey
	listings.Lock()
	defer listings.Unlock()
	if listing := listings.byOwner[key].Value(); listing != nil {
		return listing
	}
	if listings.byOwner == nil {
		listings.byOwner = map[string]weak.Pointer[Listing]{}
	}
	listing := NewListing()
	listings.byOwner[key] = weak.Make(listing)
	return listing
}

// replace takes the objects that are there now, and drops the ends of those that are gone.
func (l *Listing) replace(objects map[string]bucket.Object) {
	there := map[string]bool{}
	for _, o := range objects {
		there[version{o}.id()] = true
	}
	for id := range l.ends.Keys() {
		if !there[id] {
			l.ends.Invalidate(id)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects, l.at = objects, time.Now()
}

// object returns the object of a key.
func (l *Listing) object(key string) (o bucket.Object, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok = l.objects[key]
	return o, ok
}

// all returns all objects and when they were listed.
func (l *Listing) all() (objects map[string]bucket.Object, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects, l.at
}
