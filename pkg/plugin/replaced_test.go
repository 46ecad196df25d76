package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// A directory of snapshots can give way to another one while the data source is used.
func TestSnapshotDirReplaced(t *testing.T) {
	o := small()
	for how, replace := range map[string]func(path, before, after string) error{
		"by renaming": func(path, _, after string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.Rename(after, path)
		},
		"by deleting": func(path, _, after string) error {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return os.Rename(after, path)
		},
		"by turning a link": func(path, before, after string) error {
			if err := os.Rename(path, before+".there"); err != nil {
				return err
			}
			return os.Symlink(after, path)
		},
	} {
		t.Run(how, func(t *testing.T) {
			before, _ := writePool(t, o)
			after, _ := writePool(t, small(func(o *samplepool.Options) { o.Seed++ }))
			path := filepath.Join(t.TempDir(), "snapshots")
			require.NoError(t, os.Rename(before, path))
			settings := map[string]any{"snapshotDir": path, "cacheDir": t.TempDir(), "jobs": "sqlite"}
			d := open(t, o.End, settings)
			var queries []backend.DataQuery
			for i, model := range everyView() {
				queries = append(queries, queryOf(t, o, string(rune('A'+i)), model))
			}
			old := answered(t, d, queries...)

			stores, done, err := d.use(t.Context())
			require.NoError(t, err)
			require.NoError(t, replace(path, before, after))
			now := answered(t, d, queries...)
			require.Equal(t, answered(t, open(t, o.End, settings), queries...), now)
			for i := range queries {
				require.NotEqual(t, old[i], now[i], string(queries[i].JSON))
			}

			_, _, _, err = stores.Timeline.Range(context.Background())
			require.NotErrorIs(t, err, os.ErrClosed, "who uses the stores of before keeps them")
			done()
			_, _, _, err = stores.Timeline.Range(context.Background())
			require.ErrorIs(t, err, os.ErrClosed, "closed with the last one")
		})
	}
}

// A directory that is not there at times is reported, and answers when it is back.
func TestSnapshotDirAway(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	query := queryOf(t, o, "A", `{"queryType": "allocation"}`)
	before := answered(t, d, query)
	for range 2 {
		require.NoError(t, os.Rename(dir, dir+".away"))
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{query}})
		require.NoError(t, err)
		require.ErrorContains(t, r.Responses["A"].Error, "does not exist")
		require.Equal(t, backend.ErrorSourceDownstream, r.Responses["A"].ErrorSource)
		require.Empty(t, openFiles(t, dir))
		require.NoError(t, os.Rename(dir+".away", dir))
		require.Equal(t, before, answered(t, d, query))
	}
}

// A link that is turned later is not followed out of the directories that the server allows.
func TestLinkTurnedOutOfAllowedDirectories(t *testing.T) {
	o := small()
	outside, _ := writePool(t, o)
	inside, _ := writePool(t, o)
	allowed := t.TempDir()
	require.NoError(t, os.Rename(inside, filepath.Join(allowed, "pool")))
	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", allowed)
	link := filepath.Join(allowed, "snapshots")
	require.NoError(t, os.Symlink("pool", link))
	d := open(t, o.End, map[string]any{"snapshotDir": link})
	query := queryOf(t, o, "A", `{"queryType": "allocation"}`)
	answered(t, d, query)

	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(outside, link))
	r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{query}})
	require.NoError(t, err)
	require.ErrorContains(t, r.Responses["A"].Error, "outside the directories that this server allows")
	require.Empty(t, r.Responses["A"].Frames)
}

// Who empties the cache directory has it filled again.
func TestCacheDirEmptied(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	cache := filepath.Join(t.TempDir(), "cache")
	d := open(t, o.End, map[string]any{"snapshotDir": dir, "cacheDir": cache, "jobs": "sqlite"})
	query := queryOf(t, o, "A", `{"queryType": "evictions"}`)
	kept := func() []string {
		files, err := filepath.Glob(filepath.Join(cache, "*", "*"))
		require.NoError(t, err)
		return files
	}
	before := answered(t, d, query)
	files := kept()
	require.NotEmpty(t, files)
	for _, what := range []string{cache, filepath.Join(cache, "*")} {
		folders, err := filepath.Glob(what)
		require.NoError(t, err)
		require.Len(t, folders, 1)
		require.NoError(t, os.RemoveAll(folders[0]))
		require.Equal(t, before, answered(t, d, query))
		require.Equal(t, files, kept(), what)
	}
}

// Texts that take more than their share of memory are freed with the stores that hold them, once an hour at most.
func TestTextsThatNothingUsesAreFreed(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	query := queryOf(t, o, "A", `{"queryType": "userHours"}`)
	before := answered(t, d, query)
	use := func() *opened {
		s, done, err := d.use(t.Context())
		require.NoError(t, err)
		done()
		return s
	}
	first := use()
	for i := range 40_000 { // of jobs that are gone
		first.Timeline.Names().Symbol(fmt.Sprint(strings.Repeat("x", 500), i))
	}
	require.Same(t, first, use(), "not yet")
	first.since = first.since.Add(-2 * time.Hour)
	second := use()
	require.NotSame(t, first, second)
	require.Equal(t, before, answered(t, d, query))
	require.Positive(t, second.Timeline.Names().Bytes())
	require.Less(t, second.Timeline.Names().Bytes(), second.names)
	second.since = second.since.Add(-2 * time.Hour)
	require.Same(t, second, use())
}
