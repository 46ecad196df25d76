package objects

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

const (
	// smallObject is read at once: a snapshot of 2,000 GPUs.
	smallObject = 256 << 10
	// keptEnds bounds the bytes of small objects, and of the ends of others, that are kept, so that the running day is not
	// asked for again and again.
	keptEnds = 32 << 20
	// shortTail and longTail bound what is read first of a larger one, which grows with it: the footer.
	shortTail, longTail = 8 << 10, 64 << 10
	// oneRequest bounds a request; longer ranges are asked for in parallel.
	oneRequest = 4 << 20
)

// object implements parquet.Holder.
type object struct {
	place *place
	key   string
}

// version is an object as it was listed.
type version struct{ bucket.Object }

// Size implements parquet.Version.
func (v version) Size() int64 { return v.Object.Size }

// Same implements parquet.Version: the ETag tells contents apart.
func (v version) Same(other parquet.Version) bool {
	o, ok := other.(version)
	return ok && v.ETag == o.ETag && v.Object.Size == o.Object.Size
}

// Tag tells the content apart.
func (v version) Tag() string { return fmt.Sprintf("%s/%d", url.PathEscape(v.ETag), v.Object.Size) }

// Version implements parquet.Holder.
func (o *object) Version() (parquet.Version, error) {
	o.place.mu.Lock()
	defer o.place.mu.Unlock()
	listed, ok := o.place.objects[o.key]
	if !ok { // it was removed since it was listed
		return nil, snapshots.ErrStale
	}
	return version{listed}, nil
}

// Open implements parquet.Holder.
func (o *object) Open(ctx context.Context, v parquet.Version) (parquet.Input, error) {
	now, err := o.Version()
	if err != nil || !now.Same(v) {
		return nil, snapshots.ErrStale
	}
	return &input{ctx: ctx, object: o, version: now.(version)}, nil
}

// input reads a version of an object by ranges. It is for one goroutine.
type input struct {
	ctx     context.Context //nolint:containedctx // io.ReaderAt takes none
	object  *object
	version version
	blocks  [3]block // the tail, what was fetched ahead, what was read last
}

// block is a range of the object.
type block struct {
	at   int64
	data []byte
}

const (
	tailBlock = iota
	aheadBlock
	lastBlock
)

// ReadAt implements io.ReaderAt.
func (i *input) ReadAt(p []byte, at int64) (int, error) {
	size := i.version.Size()
	if at < 0 || at >= size {
		return 0, io.EOF
	}
	end := min(at+int64(len(p)), size)
	block, err := i.cover(at, end)
	if err != nil {
		return 0, err
	}
	n := copy(p, block.data[at-block.at:end-block.at])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// cover returns a block that holds a range.
func (i *input) cover(from, to int64) (block, error) {
	for _, b := range i.blocks {
		if b.data != nil && from >= b.at && to <= b.at+int64(len(b.data)) {
			return b, nil
		}
	}
	size := i.version.Size()
	if footer := i.object.place.footer(i.version.ETag); from >= size-int64(len(footer)) {
		i.blocks[tailBlock] = block{size - int64(len(footer)), footer}
		return i.blocks[tailBlock], nil
	}
	slot := lastBlock
	switch {
	case size <= smallObject:
		slot, from, to = tailBlock, 0, size
	case from >= size-tailOf(size):
		slot, from, to = tailBlock, size-tailOf(size), size
	}
	data, err := i.fetch(from, to)
	i.blocks[slot] = block{from, data}
	return i.blocks[slot], err
}

// tailOf is how much of the end of a larger object is read first.
func tailOf(size int64) int64 { return min(max(size/64, shortTail), longTail) }

// Prefetch reads a range at once.
func (i *input) Prefetch(from, to int64) error {
	if i.version.Size() <= smallObject {
		return nil
	}
	if b := i.blocks[aheadBlock]; b.data != nil && b.at == from {
		return nil
	}
	data, err := i.fetch(from, to)
	i.blocks[aheadBlock] = block{from, data}
	return err
}

// fetch gets a range, one at the object's end out of what is kept.
func (i *input) fetch(from, to int64) ([]byte, error) {
	p := i.object.place
	atEnd := to == i.version.Size()
	if atEnd {
		if data := p.end(i.version.ETag, to-from); data != nil {
			return data, nil
		}
	}
	data := make([]byte, to-from)
	group, ctx := parallel.WithContext(i.ctx)
	for at := from; at < to; at += oneRequest {
		group.Go(func() error {
			return p.bucket.Patience().Ask(ctx, func(ctx context.Context) error {
				part, err := p.bucket.GetRange(ctx, i.object.key, i.version.ETag, at, min(oneRequest, to-at))
				copy(data[at-from:], part)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		if i.ctx.Err() != nil {
			return nil, i.ctx.Err()
		}
		return nil, offline(err)
	}
	if atEnd {
		p.keepEnd(i.version.ETag, data)
	}
	return data, nil
}

// end returns so many bytes of the end of an object, nil if they are not kept.
func (p *place) end(etag string, n int64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	data := p.ends[etag]
	if int64(len(data)) < n {
		return nil
	}
	return data[int64(len(data))-n:]
}

// keepEnd keeps the end of an object, and its footer.
func (p *place) keepEnd(etag string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.footers.add(etag, data)
	if len(data) > smallObject { // a row group that was fetched ahead
		return
	}
	if grown := int64(len(data) - len(p.ends[etag])); grown > 0 && p.kept+grown <= keptEnds {
		p.ends[etag] = data
		p.kept += grown
	}
}

// footer returns the end of an object from its footer on, nil if it is not kept.
func (p *place) footer(etag string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.footers.byETag[etag]
}

// Close implements io.Closer.
func (i *input) Close() error {
	i.blocks = [3]block{}
	return nil
}
