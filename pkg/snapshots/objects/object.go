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
	"github.com/chtc/gpureports/pkg/pool"
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

// condition is the ETag that a request demands, "" if there is none or it is weak: it does not identify the bytes.
func (v version) condition() string {
	if strings.HasPrefix(v.ETag, "W/") {
		return ""
	}
	return v.ETag
}

func (o *object) Version() (parquet.Version, error) {
	listed, ok := o.place.object(o.key)
	if !ok { // it was removed since it was listed
		return parquet.Version{}, snapshots.ErrStale
	}
	return parquet.Version{Size: listed.Size, Tag: version{listed}.tag()}, nil
}

func (o *object) Open(ctx context.Context, v parquet.Version) (parquet.Input, error) {
	listed, ok := o.place.object(o.key)
	if now := (version{listed}); ok && now.tag() == v.Tag {
		return &input{ctx: ctx, object: o, version: now}, nil
	}
	return nil, snapshots.ErrStale
}

// input implements parquet.Input: it reads a version of an object by ranges. It is for one goroutine.
type input struct {
	ctx     context.Context //nolint:containedctx // io.ReaderAt takes none
	object  *object
	version version
	at      int64  // where the range that was read last begins,
	data    []byte // and its bytes
}

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
func (i *input) load(from, to int64) error {
	p, listed, id, size := i.object.place, i.version.Object, i.version.id(), i.version.Size
	if end, kept := p.ends.GetIfPresent(id); kept && from >= size-int64(len(end)) {
		i.at, i.data = size-int64(len(end)), end
		return nil
	}
	if from >= size-tailOf(size) {
		from, to = size-tailOf(size), size
	}
	err := p.bucket.Breaker.Ask(i.ctx, func(ctx context.Context) (err error) {
		i.at, i.data, err = load(ctx, p.bucket, listed, from, to)
		return err
	})
	if err != nil {
		i.data = nil
		return cmp.Or(i.ctx.Err(), offline(err))
	}
	if i.at+int64(len(i.data)) == size {
		p.ends.Set(id, i.data)
	}
	return nil
}

// load reads a range of the very version, or the whole object if its parts could be of two. The data begin at begin.
func load(ctx context.Context, b *bucket.Bucket, o bucket.Object, from, to int64) (begin int64, data []byte,
	err error) {
	if etag := (version{o}).condition(); etag != "" {
		data := make([]byte, to-from)
		group, inner := parallel.WithContext(ctx)
		for at := from; at < to; at += oneRequest {
			group.Go(func() error {
				part, err := b.GetRange(inner, o.Key, etag, at, min(oneRequest, to-at))
				copy(data[at-from:], part)
				return err
			})
		}
		err := group.Wait()
		if !errors.Is(err, bucket.ErrPrecondition) || !differs(ctx, b, o) {
			return from, data, err
		}
	}
	data, err = whole(ctx, b, o)
	return 0, data, err
}

// whole reads an object in one request. The answer must have the size and the time of change, in seconds, that the
// listing says. Errors: bucket.ErrPrecondition if it has not; the object is too large; the bucket's.
func whole(ctx context.Context, b *bucket.Bucket, o bucket.Object) ([]byte, error) {
	if o.Size > pool.MostObject {
		return nil, pool.SourceError("%s cannot be read: it has %d MB and no ETag that the server accepts in requests for "+
			"parts of it, which could be of two versions: use a server with strong ETags, or day objects (gpureports "+
			"collect --to)", o.Key, o.Size>>20)
	}
	data, there, err := b.Get(ctx, o.Key)
	if err == nil && !same(o, there) {
		err = bucket.ErrPrecondition
	}
	return data, err
}

// differs reports whether an object has another ETag than in the listing although it is the listed one, as far as its
// size and time show: on some servers, for objects that were uploaded in parts.
func differs(ctx context.Context, b *bucket.Bucket, o bucket.Object) bool {
	there, err := b.Stat(ctx, o.Key)
	return err == nil && there.ETag != o.ETag && same(o, there)
}

// same reports whether a listed object and an answer have the same size and time of change, of which answers have the
// seconds only.
func same(listed, there bucket.Object) bool {
	return listed.Size == there.Size && listed.Modified.Unix() == there.Modified.Unix()
}

// tailOf is how much of the end of an object is read first.
func tailOf(size int64) int64 {
	if size <= smallObject {
		return size
	}
	return min(max(size/64, shortTail), longTail)
}

func (i *input) Close() error { return nil }
