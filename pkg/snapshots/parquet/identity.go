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
		return fmt.Sprintf("%s %d-%d", c.version.Tag(), r.First, r.Last), nil
	}
	var parts []string
	for n := c.group(r.First); n < len(c.groups) && !r.Empty() && c.begins[n] <= r.Last; n++ {
		first, end := max(r.First, c.begins[n])-c.begins[n], min(r.Last+1, c.begins[n+1])-c.begins[n]
		var hash string
		var err error
		if n < len(c.groups)-1 || !c.newest {
			hash, err = c.groupHash(ctx, n)
			hash = fmt.Sprintf("%d-%d-%s", first, end, hash)
		} else { // appending to it writes it again in other bytes
			hash, err = c.rowsHash(ctx, n, int(first), int(end))
		}
		if err != nil {
			return "", c.failure(fmt.Errorf("row group %d: %w", n, err))
		}
		parts = append(parts, hash)
	}
	return strings.Join(parts, "-"), nil
}

// Fingerprint implements months.Content.
func (c *content) Fingerprint(ctx context.Context, r months.Range) (string, error) {
	identity, err := c.Identity(ctx, r)
	return strings.ReplaceAll(identity, " ", "-"), err
}

// groupHash returns the hash of a row group that no appending changes anymore: of its bytes, or of its entry in the
// footer if reading them takes requests to a bucket.
func (c *content) groupHash(ctx context.Context, n int) (string, error) {
	if _, local := c.version.(fileVersion); !local {
		return strconv.FormatUint(c.file.Groups[n].Key, 36), nil
	}
	g := c.groups[n]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hash == "" {
		in, err := c.month.holder.Open(ctx, c.version)
		if err != nil {
			return "", err
		}
		defer in.Close()
		hash, err := c.file.hash(ctx, in, n)
		if err != nil {
			return "", err
		}
		g.hash = strconv.FormatUint(hash, 36)
	}
	return g.hash, nil
}

// rowsHash returns the hash of rows of a row group.
func (c *content) rowsHash(ctx context.Context, n, from, to int) (string, error) {
	hash := c.tail
	if hash == 0 || from > 0 || to < c.file.Groups[n].Rows {
		in, r, err := c.reader(ctx)
		if err != nil {
			return "", err
		}
		defer in.Close()
		defer r.Close()
		if hash, err = r.hash(ctx, n, from, to, 0); err != nil {
			return "", err
		}
	}
	return "rows-" + strconv.FormatUint(hash, 36), nil
}

// hash returns a hash of a row group's entry in the footer and of the bytes of its columns, apart from those that
// cannot be read.
func (f *File) hash(ctx context.Context, in io.ReaderAt, group int) (uint64, error) {
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
		n, err := io.Copy(digest, io.NewSectionReader(in, c.at, c.end-c.at))
		if err != nil {
			return 0, err
		}
		if n < c.end-c.at {
			return 0, damaged("it ends at byte %d", c.at+n)
		}
	}
	return digest.Sum64(), nil
}
