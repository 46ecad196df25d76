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

// Identity implements months.Content. Row groups are told by their entries in the footer and their bytes, where no
// rewriting changes them any more; of the last one of the newest month only the rows themselves stay what they are.
func (c *content) Identity(ctx context.Context, r months.Range) (string, error) {
	in, reader, err := c.reader()
	if err != nil {
		return "", err
	}
	defer in.Close()
	defer reader.Close()
	var parts []string
	for n := c.group(r.First); n < len(c.groups) && !r.Empty() && c.begins[n] <= r.Last; n++ {
		first, end := max(r.First, c.begins[n])-c.begins[n], min(r.Last+1, c.begins[n+1])-c.begins[n]
		if n < len(c.groups)-1 || !c.newest {
			hash, err := c.file.Groups[n].hash(ctx, in)
			if err != nil {
				return "", c.failure(fmt.Errorf("row group %d: %w", n, err))
			}
			parts = append(parts, fmt.Sprintf("%d-%d-%s", first, end, strconv.FormatUint(hash, 36)))
			continue
		}
		hash, err := reader.hash(ctx, n, int(first), int(end), 0)
		if err != nil {
			return "", c.failure(fmt.Errorf("row group %d: %w", n, err))
		}
		parts = append(parts, "rows-"+strconv.FormatUint(hash, 36))
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
