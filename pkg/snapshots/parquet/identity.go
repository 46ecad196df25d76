package parquet

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Fingerprint implements months.Content. An object in a bucket to which no rows are appended is identified by its ETag.
// Of a month to which no more are appended, the ETag, ahead of the fingerprint that the rows had while it grew, shows
// edits that leave its footer as it was.
func (c *content) Fingerprint(ctx context.Context, r months.Range) (string, error) {
	if !c.month.grows {
		return fmt.Sprintf("%s:%d-%d", c.version.Tag, r.First, r.Last), nil
	}
	if print, known := c.prints.Load(r); known {
		return print.(string), nil
	}
	var parts []string
	for n := c.group(r.First); n < len(c.groups) && !r.Empty() && c.begins[n] <= r.Last; n++ {
		first, end := max(r.First, c.begins[n])-c.begins[n], min(r.Last+1, c.begins[n+1])-c.begins[n]
		hash, err := c.hash(ctx, n, int(first), int(end))
		if err != nil {
			return "", c.failure(fmt.Errorf("row group %d: %w", n, err))
		}
		parts = append(parts, hash)
	}
	print := strings.Join(parts, "-")
	if c.version.file == nil && !c.newest {
		print = c.version.Tag + " " + print
	}
	c.prints.Store(r, print)
	return print, nil
}

// hash identifies rows of a row group. Appending to the last one writes it again in other bytes.
func (c *content) hash(ctx context.Context, n, first, end int) (string, error) {
	if n < len(c.groups)-1 || !c.newest {
		hash, err := c.groupHash(ctx, n)
		return fmt.Sprintf("%d-%d-%s", first, end, strconv.FormatUint(hash, 36)), err
	}
	f, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash, err := f.hash(ctx, n, first, end)
	return "rows-" + strconv.FormatUint(hash, 36), err
}

// groupHash returns the hash of a row group that no appending changes anymore: of its bytes, or of its entry in the
// footer if reading them takes requests to a bucket.
func (c *content) groupHash(ctx context.Context, n int) (uint64, error) {
	g := c.groups[n]
	if hash := g.hash.Load(); hash != 0 {
		return hash, nil
	}
	f, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	hash, err := c.hashOf(ctx, f, n)
	g.hash.Store(hash)
	return hash, err
}

// hashOf computes the hash of a row group.
func (c *content) hashOf(ctx context.Context, f *File, n int) (uint64, error) {
	if c.version.file == nil {
		return f.Groups[n].Key, nil
	}
	return f.hashBytes(ctx, n)
}

// hashBytes returns a hash of a row group's entry in the footer and of the bytes of its columns, apart from those that
// cannot be read.
func (f *File) hashBytes(ctx context.Context, group int) (uint64, error) {
	g := &f.Groups[group]
	digest := xxhash.New()
	_, _ = digest.WriteString(strconv.FormatUint(g.Key, 36)) // never fails
	for _, c := range g.chunks {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if c.check(f.size) != nil {
			continue
		}
		n, err := io.Copy(digest, io.NewSectionReader(f.in, c.at, c.end-c.at))
		if err != nil {
			return 0, err
		}
		if n < c.end-c.at {
			return 0, damaged("it ends at byte %d", c.at+n)
		}
	}
	return digest.Sum64(), nil
}
