package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/timeline"
)

// A pool that is made as segments holds what its files would, as many GPUs and spans on every day, and a data source
// believes them: it reads no row.
func TestSegmentsAreThoseOfTheFiles(t *testing.T) {
	b := &bench{Options: Options{Dir: t.TempDir()}}
	const machines, gpus, days = 6, 20, 6
	made, err := b.synthesize(t.Context(), machines, gpus, days)
	require.NoError(t, err)
	files := b.path("files")
	p, err := samplepool.New(options(machines, gpus, days))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(files, 0o700))
	require.NoError(t, p.WriteSnapshots(t.Context(), files))

	type day struct{ gpus, spans int }
	read := func(dir, cache string) map[int32]day {
		d, err := openDir(dir)
		require.NoError(t, err)
		tl := timeline.New(timelineOptions(registry.OpenDir(d, localtime.UTC), d, cache, 4<<30))
		defer func() { require.NoError(t, tl.Close()) }()
		view, err := tl.Load(t.Context(), now.AddDate(0, 0, -days).UnixMicro(), now.AddDate(0, 0, -2).UnixMicro()-1)
		require.NoError(t, err)
		all := map[int32]day{}
		for _, d := range view.Days {
			spans := 0
			for i := range d.GPUs() {
				first, _ := d.Spans(i)
				spans += len(first)
			}
			all[d.Date] = day{d.GPUs(), spans}
		}
		delete(all, pool.DayOf(now.UnixMicro())-2) // rebuilt in both
		delete(all, pool.DayOf(now.UnixMicro())-3) // its end is
		return all
	}
	want := read(files, "")
	require.Len(t, want, days-3)
	require.Equal(t, want, read(made, filepath.Join(made, "cache")))

	source, err := b.open(made, filepath.Join(made, "cache"), "none", atEnd)
	require.NoError(t, err)
	defer source.Dispose()
	end := now.AddDate(0, 0, -4)
	frames, err := framesOf(t.Context(), source, byCategory, end.AddDate(0, 0, -1), end)
	require.NoError(t, err)
	for _, stat := range frames[0].Meta.Stats {
		if stat.DisplayName == "Rows read" {
			require.Zero(t, stat.Value)
		}
	}
}
