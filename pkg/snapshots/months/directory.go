package months

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// directory is the Place of month files in a directory.
type directory struct {
	dir     *snapshots.Dir
	formats []Format
	zone    *localtime.Zone
}

func (d directory) List(context.Context) (all []Listed, err error) {
	names, err := d.dir.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		month, format, ok := snapshots.ParseMonthFile(name)
		rank := slices.IndexFunc(d.formats, func(f Format) bool { return f.Extension == format })
		if !ok || rank < 0 {
			continue
		}
		all = append(all, Listed{Name: name, Period: month, Rank: rank,
			Open: func() File { return d.formats[rank].Open(d.dir, name, d.zone) }})
	}
	if len(all) == 0 {
		return nil, pool.SourceError(
			"no month file gpu_state_YYYY-MM.db or gpu_state_YYYY-MM.parquet in the snapshot directory %s: check the setting "+
				"snapshotDir and that the collector runs", d.dir.Path())
	}
	return all, nil
}

func (d directory) Close() error { return d.dir.Close() }
