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

// tagged is a Version that its holder identifies by content.
type tagged interface{ Tag() string }

// Identity implements months.Content. A file that does not grow is identified by its holder where that knows the
// content (ETag); else row groups are identified by their entries in the footer, and in a directory by their bytes too,
// where no rewriting changes them any more. Of the last one of the newest month only the rows themselves stay what they
// are.
func (c *content) Identity(ctx context.Context, r months.Range) (string, error) {
	version, remote := c.version.(tagged)
	if remote && !c.month.grows {
		return fmt.Sprintf("%s %d-%d", version.Tag(), r.First, r.Last), nil
	}
	in, reader, err := c.reader(ctx)
	if err != nil {
		return "", err
	}
	defer in.Close()
	defer reader.Close()
	var parts []string
	for n := c.group(r.First); n < len(c.groups) && !r.Empty() && c.begins[n] <= r.Last; n++ {
		var hash uint64
		var err error
		first, end := max(r.First, c.begins[n])-c.begins[n], min(r.Last+1, c.begins[n+1])-c.begins[n]
		kind := fmt.Sprintf("%d-%d-", first, end)
		switch {
		case n == len(c.groups)-1 && c.newest:
			kind = "rows-"
			hash, err = reader.hash(ctx, n, int(first), int(end), 0)
		case remote:
			hash = c.file.Groups[n].Key
		default:
			hash, err = c.file.Groups[n].hash(ctx, in)
		}
		if err != nil {
			return "", c.failure(fmt.Errorf("row group %d: %w", n, err))
		}
		parts = append(parts, kind+strconv.FormatUint(hash, 36))
	}
	return strings.Join(parts, " "), nil
}

// hash returns a hash of the entry in the footer and of the bytes of the columns.
func (g *Group) hash(ctx context.Context, in io.ReaderAt) (uint64, error) {
	digest := xxhash.New()
	_, _ = digest.WriteString(strconv.FormatUint(g.Key, 36)) // never fails
	for _, c := range g.chunks {
		if err := ctx.Err(); err != nil {
			return 0, err
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
