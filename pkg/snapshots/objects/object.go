package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

const (
	// smallObject is read in one piece: a snapshot of 2,000 GPUs.
	smallObject = 256 << 10
	// shortTail and longTail bound the first read of a larger object, which grows with it: the footer.
	shortTail, longTail = 8 << 10, 64 << 10
	// oneRequest bounds a request; longer ranges are requested in parallel.
	oneRequest = 4 << 20
)

// object implements parquet.Holder.
type object struct {
	place *place
	key   string
}

// version is an object as it was listed.
type version struct{ bucket.Object }

// tag distinguishes the contents of one key. On some servers, ETags do not.
func (v version) tag() string {
	tag := fmt.Sprintf("%s/%d", url.PathEscape(v.ETag), v.Size)
	if v.condition() == "" {
		tag += fmt.Sprintf("/%d", v.Modified.UnixMicro())
	}
	return tag
}

// id distinguishes the contents of all objects.
func (v version) id() string { return fmt.Sprintf("%s/%d/%s", v.tag(), v.Modified.UnixMicro(), v.Key) }

// condition is the ETag that a request demands, "" if the ETag is weak and therefore does not identify the very bytes.
func (v version) condition() string {
	if strings.HasPrefix(v.ETag, "W/") {
		return ""
	}
	return v.ETag
}

// Version implements parquet.Holder.
func (o *object) Version() (parquet.Version, error) {
	listed, ok := o.place.listing.object(o.key)
	if !ok { // it was removed since it was listed
		return parquet.Version{}, snapshots.ErrStale
	}
	return parquet.Version{Size: listed.Size, Tag: version{listed}.tag()}, nil
}

// Open implements parquet.Holder.
func (o *object) Open(ctx context.Context, v parquet.Version) (parquet.Input, error) {
	listed, ok := o.place.listing.object(o.key)
	if now := (version{listed}); ok && now.tag() == v.Tag {
		return &input{ctx: ctx, object: o, version: now}, nil
	}
	return nil, snapshots.ErrStale
}

// input reads a version of an object by ranges. It is for one goroutine.
type input struct {
	ctx     context.Context //nolint:containedctx // io.ReaderAt takes none
	object  *object
	version version
	at      int64  // where the range that was read last begins,
	data    []byte // and its bytes
}

// ReadAt implements io.ReaderAt.
func (i *input) ReadAt(p []byte, at int64) (int, error) {
	size := i.version.Size
	if at < 0 || at >= size {
		return 0, io.EOF
	}
	end := min(at+int64(len(p)), size)
	if at < i.at || end > i.at+int64(len(i.data)) {
		if err := i.load(at, end); err != nil {
			return 0, err
		}
	}
	n := copy(p, i.data[at-i.at:end-i.at])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// load reads a range, all of the object's end if it begins there.
func (i *input) load(from, to int64) (err error) {
	begin, ends := i.version.Size-tailOf(i.version.Size), i.object.place.listing.ends
	if from < begin {
		i.at = from
		i.data, err = i.fetch(from, to)
		return err
	}
	i.at = begin
	i.data, _ = ends.GetIfPresent(i.version.id())
	if i.data == nil {
		if i.data, err = i.fetch(begin, i.version.Size); err == nil {
			ends.Set(i.version.id(), i.data)
		}
	}
	return err
}

// tailOf is how much of the end of an object is read first.
func tailOf(size int64) int64 {
	if size <= smallObject {
		return size
	}
	return min(max(size/64, shortTail), longTail)
}

// fetch gets a range.
func (i *input) fetch(from, to int64) ([]byte, error) {
	p := i.object.place
	data := make([]byte, to-from)
	group, ctx := parallel.WithContext(i.ctx)
	for at := from; at < to; at += oneRequest {
		group.Go(func() error {
			return p.bucket.Breaker.Ask(ctx, func(ctx context.Context) error {
				n := min(oneRequest, to-at)
				part, err := p.bucket.GetRange(ctx, i.object.key, i.version.condition(), at, n)
				if errors.Is(err, bucket.ErrPrecondition) && i.contradicted(ctx) {
					part, err = p.bucket.GetRange(ctx, i.object.key, "", at, n)
				}
				copy(data[at-from:], part)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, cmp.Or(i.ctx.Err(), offline(err))
	}
	return data, nil
}

// contradicted reports whether the object is the listed one although it has another ETag: on some servers, listings
// have other ETags than the objects, for example for an object that was uploaded in parts. The first such object is
// noted.
func (i *input) contradicted(ctx context.Context) bool {
	p := i.object.place
	there, err := p.bucket.Stat(ctx, i.object.key)
	if err != nil || there.ETag == i.version.ETag || there.Size != i.version.Size ||
		there.Modified.Unix() != i.version.Modified.Unix() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contradicted = cmp.Or(p.contradicted, i.object.key)
	return true
}

// Warning implements parquet.Holder. One object speaks for all.
func (o *object) Warning() string {
	o.place.mu.Lock()
	defer o.place.mu.Unlock()
	if o.place.contradicted != o.key {
		return ""
	}
	return fmt.Sprintf("%s has another ETag than in the list of the bucket, as other objects may have: it is read anyway,"+
		" because its size and its time of change are those of the list", o.key)
}

// Close implements io.Closer.
func (i *input) Close() error { return nil }
