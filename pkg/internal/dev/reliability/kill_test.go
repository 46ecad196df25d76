package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The plugin is killed again and again while it writes its cache. Whatever it left there, the next one's answers are
// right.
func TestKilledWhileWritingItsCache(t *testing.T) {
	o := small()
	o.Start = o.End.AddDate(0, 0, -12)
	dir, cache := write(t, o), t.TempDir()
	jsonData := map[string]any{"snapshotDir": dir, "cacheDir": cache}
	work := func(round int) (answered <-chan struct{}, kill func()) {
		process := start(t)
		source := process.Source(saved(t, round, jsonData))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = source.QueryData(t.Context(), request(o.Start, o.End, `{"queryType": "allocation"}`)) // the connection breaks
		}()
		return done, func() {
			running, err := os.FindProcess(process.PID())
			require.NoError(t, err)
			require.NoError(t, running.Kill())
			<-done
			process.Close()
		}
	}
	answered, kill := work(0)
	<-answered
	kill()
	written := func() int { return len(files(t, cache, ".segment")) }
	segments := written()
	require.Greater(t, segments, 10)

	rounds, random := 10, rand.New(rand.NewPCG(5, 5))
	if *long {
		rounds = 200
	}
	between, parts := 0, 0
	for round := range rounds {
		for _, name := range files(t, cache, "") { // of the rest nothing, something or all is there
			if random.IntN(4) > 0 {
				require.NoError(t, os.Remove(name))
			}
		}
		before := written()
		answered, kill := work(round + 1)
		for until := before + random.IntN(segments-before+1); written() < until; { // a random moment
			select {
			case <-answered:
				until = 0
			default:
			}
		}
		kill()
		if after := written(); before < after && after < segments {
			between++
		}
		parts += len(files(t, cache, ".part"))
		requireAsFresh(t, open(t, o.End, jsonData), dir, o.Start, o.End, "after a kill")
	}
	require.NotZero(t, between, "no kill met the writing")
	queries := []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`}
	fresh := ask(t, open(t, o.End, map[string]any{"snapshotDir": dir}), o.Start, o.End, queries...)
	for i, plain := range plainAnswers(t, dir, o.Start, o.End, queries...) {
		require.Equal(t, figures(t, plain), figures(t, fresh[i]), "what all were compared with is what plain SQL reads")
	}
	figure("Killed at a random moment", "%d times, %d of them between the first and the last of %d segments that were "+
		"to be written, %d segments half written; every answer afterwards the same as after a fresh start without a "+
		"cache", rounds,
		between, segments, parts)
}

// plainAnswers computes two tables from the rows that plain SQL reads, with nothing cached.
func plainAnswers(t *testing.T, dir string, from, to time.Time, queries ...string) (answers []backend.DataResponse) {
	t.Helper()
	files, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: months.New(files, localtime.UTC, sqlite.Format), MaxBytes: 1 << 30})
	s := stores.New(tl, stores.Divide(1<<30))
	defer s.Close()
	lists, err := files.Lists(snapshots.ListFiles{})
	require.NoError(t, err)
	for _, q := range queries {
		model, err := query.Parse([]byte(q))
		require.NoError(t, err)
		frames, err := kinds.Answer(t.Context(), s, query.Env{Zone: localtime.UTC, SliceMinutes: 15, Lists: lists},
			query.Request{Model: model, Window: pool.NewWindow(from, to), IntervalMs: 60_000,
				Now: to.UnixMicro()})
		answers = append(answers, backend.DataResponse{Frames: frames, Error: err})
	}
	return answers
}

// damage changes bytes of a file as a failing disk or a careless copy does.
func damage(random *rand.Rand, content []byte) (what string) {
	at := random.IntN(len(content))
	if random.IntN(3) == 0 {
		at = random.IntN(len(content)/4096) * 4096 // the beginning of a page, where its structure is
		at += random.IntN(64)
	}
	switch kind := random.IntN(4); kind {
	case 0:
		content[at] ^= 1 << random.IntN(8)
		return fmt.Sprintf("a bit at %d", at)
	case 1:
		n := 1 + random.IntN(16)
		for i := at; i < min(at+n, len(content)); i++ {
			content[i] = byte(random.Uint32())
		}
		return fmt.Sprintf("%d bytes at %d", n, at)
	case 2:
		at = at / 512 * 512
		clear(content[at:min(at+512, len(content))])
		return fmt.Sprintf("a sector of zeros at %d", at)
	default:
		from := random.IntN(len(content)/4096) * 4096
		at = at / 4096 * 4096
		copy(content[at:min(at+4096, len(content))], content[from:])
		return fmt.Sprintf("the page at %d in place of the one at %d", from, at)
	}
}

func leavesDaysOut(answer backend.DataResponse) bool {
	text := notices(answer)
	return strings.Contains(text, "day is left out") || strings.Contains(text, "days are left out")
}

// Of a damaged file the answer is what SQLite itself reads of it, or an error that names the file, or the answer of the
// days that can be read with a notice that names the file and those that cannot. Nothing crashes or hangs.
func TestDamagedFiles(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.End = o.Start.AddDate(0, 0, 2) })
	whole := write(t, o)
	const name = "gpu_state_2025-10.db"
	content, err := os.ReadFile(filepath.Join(whole, name))
	require.NoError(t, err)
	queries := []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`,
		`{"queryType": "allocation", "view": "stateTimeline", "limit": 500}`}
	undamaged := ask(t, open(t, o.End, map[string]any{"snapshotDir": whole}), o.Start, o.End, queries...)
	rounds, random := 50, rand.New(rand.NewPCG(1, 9))
	if *long {
		rounds = 1000
	}
	same, equal, told, left := 0, 0, 0, 0
	var slowest time.Duration
	for range rounds {
		broken := append([]byte(nil), content...)
		what := damage(random, broken)
		for range random.IntN(3) {
			what += ", " + damage(random, broken)
		}
		dir := copyDir(t, whole)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), broken, 0o600))
		started := time.Now()
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "cacheDir": t.TempDir()})
		got := ask(t, d, o.Start, o.End, queries...)
		health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
			PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
		require.NoError(t, err)
		require.True(t, json.Valid(health.JSONDetails))
		slowest = max(slowest, time.Since(started))
		d.Dispose()
		want := plainAnswers(t, dir, o.Start, o.End, queries...)
		for i, q := range queries {
			switch {
			case got[i].Error != nil:
				told++
				require.Equal(t, backend.StatusBadGateway, got[i].Status, "%s: %s: %v", what, q, got[i].Error)
				require.ErrorContains(t, got[i].Error, name, "%s: %s", what, q)
			case leavesDaysOut(got[i]):
				left++
				require.Contains(t, notices(got[i]), name+" is damaged or truncated", "%s: %s", what, q)
			case leavesDaysOut(want[i]), want[i].Error != nil: // SQLite fails although the damaged part need not be read
				require.Equal(t, figures(t, undamaged[i]), figures(t, got[i]), "%s: %s: %v", what, q, want[i].Error)
				same++
			default:
				require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%s: %s", what, q)
				if figures(t, undamaged[i]) == figures(t, got[i]) {
					same++
				} else {
					equal++
				}
			}
		}
	}
	require.NotZero(t, told)
	require.NotZero(t, left)
	require.NotZero(t, equal)
	figure("Random damage to a month file", "%d files, %d answers: %d the same as without the damage, %d what plain SQL "+
		"reads of it, %d without the days that a notice names, %d errors that name the file; the slowest file took %d ms",
		rounds, 3*rounds, same, equal, left, told, slowest.Milliseconds())
}

const october = "gpu_state_2025-10.db"

// twoMonths writes the last days of September and the first of October.
func twoMonths(t *testing.T, pragmas ...string) (dir string, from, to time.Time) {
	t.Helper()
	dir = t.TempDir()
	from, to = time.Date(2025, 9, 29, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 3, 0, 0, 0, 0, time.UTC)
	files := map[string][]snapshotstest.Row{}
	for at, n := from, 0; at.Before(to); at, n = at.Add(15*time.Minute), n+1 {
		name := "gpu_state_" + at.Format("2006-01") + ".db"
		files[name] = append(files[name], shot(at, n)...)
	}
	for name, rows := range files {
		db := snapshotstest.Open(t, dir, name, snapshotstest.Schema, pragmas...)
		snapshotstest.Append(t, db, snapshotstest.Schema, rows...)
		require.NoError(t, db.Close())
	}
	return dir, from, to
}

// requireAsFresh compares a data source's answers with those of one that has seen nothing before and caches nothing.
func requireAsFresh(t *testing.T, d backend.QueryDataHandler, dir string, from, to time.Time, what string) {
	t.Helper()
	got, want := ask(t, d, from, to, views()...), ask(t, open(t, to, map[string]any{"snapshotDir": dir}), from, to,
		views()...)
	for i, q := range views() {
		require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%s: %s", what, q)
	}
}

// While a writer holds a month file locked, queries wait for it, but not for long: then the other months answer, with a
// notice. Many queries wait no longer than one. When the lock is gone, all is well.
func TestLockedFile(t *testing.T) {
	dir, from, to := twoMonths(t)
	d := open(t, to, map[string]any{"snapshotDir": dir})
	requireAsFresh(t, d, dir, from, to, "before")
	lock := func() (unlock func()) {
		db := snapshotstest.Open(t, dir, october, snapshotstest.Schema)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.Exec("DELETE FROM gpu_state WHERE rowid < 0")
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		_, err = db.Exec("BEGIN EXCLUSIVE")
		require.NoError(t, err)
		return func() {
			_, err := db.Exec("ROLLBACK")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}
	}

	unlock := lock()
	release := time.AfterFunc(time.Second, unlock)
	requireAsFresh(t, d, dir, from, to, "locked for a second")
	require.False(t, release.Stop(), "the answer came while the file was locked")

	unlock = lock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	started := time.Now()
	answer := askIn(t, ctx, d, from, to, views()[0])[0]
	cancel()
	require.ErrorIs(t, answer.Error, context.DeadlineExceeded)
	require.Less(t, time.Since(started), 2*time.Second, "the deadline ends the waiting")
	if !*long {
		unlock()
		return
	}
	const clients = 20
	var wait sync.WaitGroup
	started = time.Now()
	for i := range clients {
		wait.Go(func() {
			answer := ask(t, d, from.Add(time.Duration(i)*time.Minute), to, views()[0])[0]
			require.NoError(t, answer.Error)
			require.Contains(t, notices(answer), october+" is locked by a writer")
			require.False(t, empty(answer.Frames), "September answers")
		})
	}
	wait.Wait()
	took := time.Since(started)
	require.Less(t, took, 25*time.Second)
	time.Sleep(30*time.Second - time.Since(started)) // the collector that hangs
	unlock()
	requireAsFresh(t, d, dir, from, to, "after the lock")
	figure("A month file locked for 30 s", "%d simultaneous queries answered from the other months, with a notice, "+
		"after %.1f s; complete again with the first query after it", clients, took.Seconds())
}

// A collector writes as fast as it can while many ask: no query fails, and none sees half a snapshot.
func TestWriterAtWork(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			dir := t.TempDir()
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema, "journal_mode="+journal, "busy_timeout=20000")
			snapshotstest.Append(t, db, snapshotstest.Schema, quarters(1)...)
			const snapshots = 200
			to := begin.Add((snapshots - 1) * 15 * time.Minute)
			d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": t.TempDir()})
			written := make(chan struct{})
			go func() {
				defer close(written)
				for n := 1; n < snapshots; n++ {
					snapshotstest.Append(t, db, snapshotstest.Schema, shot(begin.Add(time.Duration(n)*15*time.Minute), n)...)
				}
			}()
			var wait sync.WaitGroup
			var asked [3]int
			for i := range asked {
				wait.Go(func() {
					for writing := true; writing; asked[i]++ {
						select {
						case <-written:
							writing = false
						default:
						}
						answer := ask(t, d, begin.Add(time.Duration(asked[i])*time.Microsecond), to,
							`{"queryType": "allocation", "view": "current"}`)[0]
						require.NoError(t, answer.Error)
						require.Equal(t, 3, answer.Frames[0].Rows(), "a snapshot has three GPUs")
					}
				})
			}
			wait.Wait()
			requireAsFresh(t, d, dir, begin, to, journal)
			figure("Written in "+journal+" mode while queried", "%d snapshots written, %d queries, no error, no half snapshot",
				snapshots, asked[0]+asked[1]+asked[2])
		})
	}
}

// What happens to a month file while it is in use becomes a notice, or does not matter; afterwards answers are right at
// once.
func TestFileChangesWhileInUse(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		for name, change := range map[string]func(t *testing.T, dir, file string) (notice string){
			"truncated": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Truncate(file, 10_000))
				return october
			},
			"truncated to nothing": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Truncate(file, 0))
				return october
			},
			"replaced by rename": func(t *testing.T, dir, file string) string {
				other := t.TempDir()
				snapshotstest.Write(t, other, map[string][]snapshotstest.Row{"x": shot(time.Date(2025, 10, 1, 0, 0, 0, 0,
					time.UTC), 9)})
				for _, suffix := range []string{"-wal", "-shm"} {
					_ = os.Remove(file + suffix)
				}
				require.NoError(t, os.Rename(filepath.Join(other, "x"), file))
				return ""
			},
			"deleted": func(t *testing.T, _, file string) string {
				for _, suffix := range []string{"", "-wal", "-shm"} {
					_ = os.Remove(file + suffix)
				}
				return ""
			},
			"replaced by a directory": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Remove(file))
				require.NoError(t, os.Mkdir(file, 0o700))
				return october
			},
			"replaced by a link that leads out": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Remove(file))
				require.NoError(t, os.Symlink("/etc/hostname", file))
				return october
			},
		} {
			t.Run(journal+" "+name, func(t *testing.T) {
				dir, from, to := twoMonths(t, "journal_mode="+journal)
				whole := copyDir(t, dir)
				d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": t.TempDir()})
				requireAsFresh(t, d, dir, from, to, "before")
				file := filepath.Join(dir, october)
				notice := change(t, dir, file)
				for i, answer := range ask(t, d, from, to, views()...) {
					if answer.Error != nil { // the file was opened before, and its pages are gone
						require.ErrorContains(t, answer.Error, october, views()[i])
						require.NotContains(t, answer.Error.Error(), dir)
						continue
					}
					require.Contains(t, notices(answer), notice, views()[i])
					require.NotContains(t, notices(answer), dir)
				}
				if notice == "" {
					requireAsFresh(t, d, dir, from, to, name)
				}
				require.NoError(t, os.RemoveAll(file))
				require.NoError(t, os.Rename(filepath.Join(whole, october), file))
				requireAsFresh(t, d, dir, from, to, "restored")
			})
		}
	}
}

// What a data source has read and observed goes when it is closed. (Counts of allocation are small and age out.)
func TestClosedDataSourcesLeaveNothing(t *testing.T) {
	o := small()
	jsonData := map[string]any{"snapshotDir": write(t, o), "jobs": "sqlite"}
	var queries []string
	for _, q := range views() {
		if strings.Contains(q, "evictions") || strings.Contains(q, "backfillAvailability") {
			queries = append(queries, q)
		}
	}
	openAndClose := func(times int) {
		for range times {
			d := open(t, o.End, jsonData)
			for i, answer := range ask(t, d, o.Start, o.End, queries...) {
				require.NoError(t, answer.Error, queries[i])
			}
			d.Dispose()
		}
	}
	heapKB := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc >> 10
	}
	openAndClose(10)
	few := heapKB()
	openAndClose(40) // enough that a leak outgrows memory that is not freed yet
	many := uint64(0)
	// Caches give memory back in the background, after a round or two of the collector.
	require.Eventually(t, func() bool { many = heapKB(); return many < few+500 }, time.Minute, 20*time.Millisecond,
		"a pool's observation alone takes 100 KB")
	figure("Data sources opened, queried and closed", "heap after 10: %d KB, after 40 more: %d KB", few, many)
}
