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

// Identity implements months.Content. An object in a bucket to which no rows are appended is identified by its ETag.
func (c *content) Identity(ctx context.Context, r months.Range) (string, error) {
	if !c.month.grows {
		return fmt.Sprintf("%s %d-%d", c.version.Tag, r.First, r.Last), nil
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
	return strings.Join(parts, "-"), nil
}

// Fingerprint implements months.Content. Of a month in a bucket to which no rows are appended anymore, the ETag shows
// edits that leave its footer as it was: it is ahead of the fingerprint that the rows had while the month grew.
func (c *content) Fingerprint(ctx context.Context, r months.Range) (string, error) {
	if print, known := c.prints.Load(r); known {
		return print.(string), nil
	}
	print, err := c.Identity(ctx, r)
	if err == nil {
		if c.version.file == nil && !c.newest {
			print = c.version.Tag + " " + print
		}
		c.prints.Store(r, print)
	}
	return print, err
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
	g.mu.Lock()
	hash := g.hash
	g.mu.Unlock()
	if hash != 0 {
		return hash, nil
	}
	f, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if hash, err = c.hashOf(ctx, f, n); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hash = hash
	return hash, nil
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
