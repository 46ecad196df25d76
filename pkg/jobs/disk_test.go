package jobs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
)

// started is a source as a process that has just been started has it, with the cache directory of those before.
func started(t *testing.T, dir string, source jobs.Source, key string, now func() time.Time) jobs.Source {
	t.Helper()
	disk, err := segcache.OpenDisk(dir, "ads "+key, megabyte)
	require.NoError(t, err)
	s := jobs.NewCache(megabyte, now).Source(source, key, disk)
	t.Cleanup(func() { require.NoError(t, s.(interface{ Close() error }).Close()) })
	return s
}

// A source that is on disk is a source: what the suite asks for the first time is on disk the second time.
func TestSourceOnDisk(t *testing.T) {
	n := 0
	jobstest.Run(t, func(t *testing.T, documents [][]byte) jobs.Source {
		n++
		return started(t, t.TempDir(), jobstest.NewMemory(documents...), fmt.Sprint(n), time.Now)
	})
}

// revised is a source that knows when its contents change.
type revised struct {
	*jobstest.Memory
	revision string
}

func (r revised) Revision() string { return r.revision }

// disked asks a source that has just been started about a finished day in all three ways, and about the running one.
type disked struct {
	*clock
	dir    string
	memory *jobstest.Memory
}

// started is a process that has just been started.
func (d *disked) started(t *testing.T, source jobs.Source, key string) jobs.Source {
	t.Helper()
	return started(t, d.dir, source, key, d.now)
}

func newDisked(t *testing.T) *disked {
	t.Helper()
	noon := time.Date(2025, 10, 5, 12, 0, 0, 0, time.UTC)
	return &disked{clock: &clock{noon}, dir: t.TempDir(), memory: jobstest.NewMemory(history("a", noon.AddDate(0, 0, -2)))}
}

const finishedDay = 20364 // 2025-10-03

// ask returns the number of ads that a newly started process finds, and the jobs that it requested.
func (d *disked) ask(t *testing.T, source jobs.Source, key string) (ads int, asked []string) {
	t.Helper()
	s := d.started(t, source, key)
	seen := time.Date(2025, 10, 3, 11, 59, 0, 0, time.UTC)
	day := jobs.MachineDay{Machine: "m1", Day: finishedDay}
	jobResult, err := s.Ads(t.Context(), []jobs.Wanted{{Job: "a", LastSeen: seen}, {Job: "b", LastSeen: seen}})
	require.NoError(t, err)
	onMachine, err := s.AdsOnMachines(t.Context(), []jobs.MachineDay{day})
	require.NoError(t, err)
	epochs, err := s.AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m1", Day: finishedDay, Longest: time.Hour}})
	require.NoError(t, err)
	for _, r := range []jobs.Result{jobResult, onMachine, epochs} {
		for _, list := range r.Ads {
			ads += len(list)
		}
	}
	return ads, d.memory.Asked()
}

var everything = []string{"a", "b", "m1", "m1"}

// After a restart finished days are requested when they would have been without one, so late ads are found.
func TestFinishedDaysAreOnDisk(t *testing.T) { testFinishedDays(t, newDisked(t)) }

func testFinishedDays(t *testing.T, d *disked) {
	t.Helper()
	ads, asked := d.ask(t, d.memory, "k")
	require.Equal(t, everything, asked)
	require.Equal(t, 2, ads)
	d.t = d.t.Add(5 * time.Hour)
	ads, asked = d.ask(t, d.memory, "k")
	require.Empty(t, asked)
	require.Equal(t, 2, ads)

	d.memory.Add(history("b", d.t.Add(-53*time.Hour)))
	d.t = d.t.Add(time.Hour)
	ads, asked = d.ask(t, d.memory, "k")
	require.Equal(t, everything[1:], asked, "the ad of a finished run stays as it is")
	require.Equal(t, 4, ads)

	d.t = d.t.AddDate(0, 0, 7)
	_, asked = d.ask(t, d.memory, "k")
	require.Equal(t, everything[2:], asked)
	d.t = d.t.Add(23 * time.Hour)
	_, asked = d.ask(t, d.memory, "k")
	require.Empty(t, asked, "a week after the run, once a day")
	d.t = d.t.Add(time.Hour)
	_, asked = d.ask(t, d.memory, "k")
	require.Equal(t, everything[2:], asked)
}

// Entries of another source and changed ones are ignored; incomplete answers and current days are not written.
func TestOnlyWhatHoldsIsBelieved(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, d *disked) (key, revision string){
		"nothing":       func(*testing.T, *disked) (key, revision string) { return "k", "1" },
		"other source":  func(*testing.T, *disked) (key, revision string) { return "l", "1" },
		"file replaced": func(*testing.T, *disked) (key, revision string) { return "k", "2" },
		"clock set back": func(_ *testing.T, d *disked) (key, revision string) {
			d.t = d.t.Add(-time.Hour)
			return "k", "1"
		},
		"damaged": func(t *testing.T, d *disked) (key, revision string) {
			rewrite(t, d.dir, func(content []byte) []byte {
				content[len(content)-1] ^= 1
				return content
			})
			return "k", "1"
		},
		"cut": func(t *testing.T, d *disked) (key, revision string) {
			rewrite(t, d.dir, func(content []byte) []byte { return content[:len(content)/2] })
			return "k", "1"
		},
		"of another version": func(t *testing.T, d *disked) (key, revision string) {
			rewrite(t, d.dir, func(content []byte) []byte {
				return []byte(strings.Replace(string(content), "ads 7\n", "ads 6\n", 1))
			})
			return "k", "1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisked(t)
			_, asked := d.ask(t, revised{d.memory, "1"}, "k")
			require.Equal(t, everything, asked)
			key, revision := change(t, d)
			ads, asked := d.ask(t, revised{d.memory, revision}, key)
			require.Equal(t, 2, ads)
			if name == "nothing" {
				require.Empty(t, asked)
				return
			}
			require.Equal(t, everything, asked)
			_, asked = d.ask(t, revised{d.memory, revision}, key)
			require.Empty(t, asked, "it is written anew")
		})
	}
}

// rewrite rewrites the files of job ads in a cache directory.
func rewrite(t *testing.T, dir string, by func([]byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, segcache.Folder, "*ads"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, name := range files {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, by(content), 0o600))
	}
}

func TestRunningDaysAndIncompleteAnswersAreNotKept(t *testing.T) {
	d := newDisked(t)
	d.t = time.Date(2025, 10, 4, 0, 59, 0, 0, time.UTC) // the day has just ended
	_, asked := d.ask(t, d.memory, "k")
	require.Equal(t, everything, asked)
	_, asked = d.ask(t, d.memory, "k")
	require.Equal(t, everything, asked)
	d.t = d.t.AddDate(0, 0, 1)
	d.memory.Notices = []string{"2 of 5 shards failed"}
	_, asked = d.ask(t, d.memory, "k")
	require.Equal(t, everything, asked)
	d.memory.Notices = nil
	_, asked = d.ask(t, d.memory, "k")
	require.Equal(t, everything, asked)
	_, asked = d.ask(t, d.memory, "k")
	require.Empty(t, asked)
}

// growing is a source whose contents change while it answers.
type growing struct {
	*revised
	arrive func()
}

func (g *growing) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	result, err := g.Memory.Ads(ctx, wanted)
	g.arrive()
	return result, err
}

// An ad that arrives between the asking and the saving is in the next answer, with a cache directory and without.
func TestAdsThatArriveWhileTheyAreAskedFor(t *testing.T) {
	d := newDisked(t)
	source := &growing{revised: &revised{d.memory, "1"}}
	source.arrive = func() {
		if source.revision == "1" {
			d.memory.Add(history("b", d.t.Add(-48*time.Hour)))
			source.revision = "2"
		}
	}
	ads, _ := d.ask(t, source, "k")
	require.Equal(t, 3, ads, "of the job itself not yet")
	for range 2 { // other processes
		d.t = d.t.Add(time.Minute)
		ads, _ = d.ask(t, source, "k")
		require.Equal(t, 4, ads)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const megabyte = 1 << 20

// A cached source is a source, even for a repeated lookup.
func TestCachedSource(t *testing.T) {
	cache := jobs.NewCache(64*megabyte, time.Now)
	n := 0
	jobstest.Run(t, func(_ *testing.T, documents [][]byte) jobs.Source {
		n++
		return cache.Source(jobstest.NewMemory(documents...), segcache.Key("memory", fmt.Sprint(n)), nil)
	})
}

// clock is a clock that does not run by itself.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func history(job string, recorded time.Time) []byte {
	return fmt.Appendf(nil, `{"GlobalJobId": %q, "RecordTime": %d, "JobStatus": 4, "StartdName": "m1", "JobCurrentStartDate": %d}`, job, recorded.Unix(), recorded.Unix()-60)
}

func TestCacheAsksAgain(t *testing.T) {
	ctx := t.Context()
	noon := time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ad       time.Duration // RecordTime of the job's ad after lastSeen; 0 = none
		lastSeen time.Duration // before noon
		again    time.Duration // 0 = never
	}{
		"an old run without an ad":                 {0, 3 * time.Hour, 6 * time.Hour},
		"a fresh run without an ad":                {0, 10 * time.Minute, 5 * time.Minute},
		"a run that goes on":                       {0, 0, 5 * time.Minute},
		"a finished run":                           {time.Minute, 3 * time.Hour, 0},
		"a finished run, clock behind":             {-2 * time.Minute, 3 * time.Hour, 0},
		"an ad of an earlier run only":             {-3 * time.Minute, 3 * time.Hour, 6 * time.Hour},
		"finished just now: an epoch may come":     {time.Minute, 10 * time.Minute, 5 * time.Minute},
		"finished long ago, ad later than the run": {2 * time.Hour, 8 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &clock{noon}
			lastSeen := noon.Add(-c.lastSeen)
			memory := jobstest.NewMemory()
			if c.ad != 0 {
				memory.Add(history("j", lastSeen.Add(c.ad)))
			}
			source := jobs.NewCache(megabyte, clock.now).Source(memory, "k", nil)
			ask := func() bool {
				_, err := source.Ads(ctx, []jobs.Wanted{{Job: "j", LastSeen: lastSeen}})
				require.NoError(t, err)
				return len(memory.Asked()) > 0
			}
			require.True(t, ask())
			require.False(t, ask())
			if c.again == 0 {
				clock.t = noon.Add(1000 * time.Hour)
				require.False(t, ask())
				return
			}
			clock.t = noon.Add(c.again - time.Second)
			require.False(t, ask())
			clock.t = noon.Add(c.again)
			require.True(t, ask())
		})
	}
}

// The same job with a later run is requested again; only missing ads are requested; keys keep sources apart.
func TestCacheAsksForMissingOnly(t *testing.T) {
	ctx := t.Context()
	clock := &clock{time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)}
	morning := clock.t.Add(-6 * time.Hour)
	cache := jobs.NewCache(megabyte, clock.now)
	memory := jobstest.NewMemory(history("a", morning), history("b", morning))
	source := cache.Source(memory, "k", nil)
	ask := func(source jobs.Source, wanted ...jobs.Wanted) jobs.Result {
		result, err := source.Ads(ctx, wanted)
		require.NoError(t, err)
		require.Len(t, result.Ads, len(wanted))
		return result
	}
	ask(source, jobs.Wanted{Job: "a", LastSeen: morning})
	require.Equal(t, []string{"a"}, memory.Asked())
	result := ask(source, jobs.Wanted{Job: "b", LastSeen: morning}, jobs.Wanted{Job: "a", LastSeen: morning},
		jobs.Wanted{Job: "b", LastSeen: morning})
	require.Equal(t, []string{"b", "b"}, memory.Asked())
	require.Equal(t, "b", result.Ads[0][0].GlobalJobID)
	require.Equal(t, "a", result.Ads[1][0].GlobalJobID)
	require.Equal(t, result.Ads[0], result.Ads[2])

	clock.t = clock.t.Add(6 * time.Hour)
	memory.Add(history("a", clock.t.Add(-2*time.Hour)))
	result = ask(source, jobs.Wanted{Job: "a", LastSeen: clock.t.Add(-3 * time.Hour)},
		jobs.Wanted{Job: "b", LastSeen: morning})
	require.Equal(t, []string{"a"}, memory.Asked())
	require.Len(t, result.Ads[0], 2)

	other := cache.Source(jobstest.NewMemory(), segcache.Key("other"), nil)
	require.Empty(t, ask(other, jobs.Wanted{Job: "b", LastSeen: morning}).Ads[0])
	shared := cache.Source(jobstest.NewMemory(), "k", nil)
	require.Len(t, ask(shared, jobs.Wanted{Job: "b", LastSeen: morning}).Ads[0], 1)
}

// changing is a source whose contents have a revision.
type changing struct {
	jobs.Source
	revision string
}

func (c *changing) Revision() string { return c.revision }

// An answer has another version only if its ads are others.
func TestAnswersHaveVersions(t *testing.T) {
	clock := &clock{time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)}
	memory := jobstest.NewMemory(history("ap#1.0#1", clock.t.Add(-5*time.Hour)))
	file := &changing{Source: memory}
	source := jobs.NewCache(megabyte, clock.now).Source(file, "memory", nil)
	version := func() uint64 {
		result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1", LastSeen: clock.t},
			{Job: "ap#2.0#1", LastSeen: clock.t}})
		require.NoError(t, err)
		require.NotZero(t, result.Version)
		return result.Version
	}
	first := version()
	clock.t = clock.t.Add(6 * time.Minute)
	require.Equal(t, first, version(), "the source was asked again, and said the same")
	memory.Add(history("ap#2.0#1", clock.t))
	clock.t = clock.t.Add(6 * time.Minute)
	second := version()
	require.NotEqual(t, first, second)
	require.Equal(t, second, version())
	file.revision = "2"
	require.NotEqual(t, second, version(), "the contents may have changed")
}

// An answer holds until one of its jobs is due to be requested again, or another lookup got a different answer.
func TestCacheTellsHowLongAnAnswerHolds(t *testing.T) {
	clock := &clock{time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)}
	memory := jobstest.NewMemory(history("ap#1.0#1", clock.t.Add(-5*time.Hour)))
	source := jobs.NewCache(megabyte, clock.now).Source(memory, "memory", nil)
	finished := jobs.Wanted{Job: "ap#1.0#1", LastSeen: clock.t.Add(-5 * time.Hour)}
	running := jobs.Wanted{Job: "ap#2.0#1", LastSeen: clock.t}
	ask := func(wanted ...jobs.Wanted) func() bool {
		result, err := source.Ads(t.Context(), wanted)
		require.NoError(t, err)
		return result.Holds
	}
	alone, both := ask(finished), ask(finished, running)
	require.True(t, both())
	clock.t = clock.t.Add(6 * time.Minute)
	require.False(t, both(), "the job that goes on may have ended")
	require.True(t, alone())
	require.True(t, ask(finished, running)())
	require.True(t, alone(), "the same answer again changes nothing")

	memory.Add(history("ap#2.0#1", clock.t))
	clock.t = clock.t.Add(6 * time.Minute)
	ask(running)
	require.False(t, alone(), "what is known has changed")
	require.True(t, ask(running)())
	require.True(t, ask(finished)())

	result, err := memory.Ads(t.Context(), []jobs.Wanted{finished})
	require.NoError(t, err)
	require.Nil(t, result.Holds, "only a cache knows")
}

// A partial answer is used, with its notices, and requested again soon.
func TestCachePartial(t *testing.T) {
	ctx := t.Context()
	clock := &clock{time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)}
	old := []jobs.Wanted{{Job: "a", LastSeen: clock.t.Add(-100 * time.Hour)},
		{Job: "b", LastSeen: clock.t.Add(-100 * time.Hour)}}
	memory := jobstest.NewMemory(history("a", clock.t.Add(-99*time.Hour)))
	memory.Notices = []string{"1 of 2 shards failed"}
	source := jobs.NewCache(megabyte, clock.now).Source(memory, "k", nil)
	for range 2 {
		result, err := source.Ads(ctx, old)
		require.NoError(t, err)
		require.True(t, result.Partial)
		require.Equal(t, memory.Notices, result.Notices)
	}
	require.Len(t, memory.Asked(), 2)
	clock.t = clock.t.Add(5 * time.Minute)
	memory.Notices = nil
	result, err := source.Ads(ctx, old)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, memory.Asked())
	require.False(t, result.Partial)
	require.Empty(t, result.Notices)
}

func TestCacheFailures(t *testing.T) {
	ctx := t.Context()
	clock := &clock{time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)}
	a := jobs.Wanted{Job: "a", LastSeen: clock.t.Add(-100 * time.Hour)}
	b := jobs.Wanted{Job: "b", LastSeen: clock.t}
	memory := jobstest.NewMemory(history("a", a.LastSeen), history("b", clock.t.Add(-time.Hour)))
	source := jobs.NewCache(megabyte, clock.now).Source(memory, "k", nil)
	down := pool.SourceError("the store is down")

	// Without cached ads: the error, and no further request for a while.
	memory.Err = down
	_, err := source.Ads(ctx, []jobs.Wanted{a, b})
	require.ErrorIs(t, err, down)
	memory.Asked()
	memory.Err = nil
	clock.t = clock.t.Add(29 * time.Second)
	_, err = source.Ads(ctx, []jobs.Wanted{a, b})
	require.ErrorIs(t, err, down)
	require.Empty(t, memory.Asked())
	clock.t = clock.t.Add(time.Second)
	_, err = source.Ads(ctx, []jobs.Wanted{a, b})
	require.NoError(t, err)

	// Cached ads are kept; stale ones are used, with a notice.
	memory.Err = down
	clock.t = clock.t.Add(time.Hour)
	result, err := source.Ads(ctx, []jobs.Wanted{a})
	require.NoError(t, err)
	require.False(t, result.Partial)
	result, err = source.Ads(ctx, []jobs.Wanted{a, b, {Job: "c"}})
	require.NoError(t, err)
	require.True(t, result.Partial)
	require.Len(t, result.Ads[1], 1)
	require.Equal(t, []string{"job ads of 2 jobs could not be fetched; using earlier results. the store " +
		"is down"}, result.Notices)

	// A cancelled lookup says nothing about the source; a bug is not a failure of the source.
	clock.t = clock.t.Add(6 * time.Hour)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	memory.Err = nil
	_, err = source.Ads(cancelled, []jobs.Wanted{b})
	require.ErrorIs(t, err, context.Canceled)
	_, err = source.Ads(ctx, []jobs.Wanted{b})
	require.NoError(t, err)
	memory.Err = fmt.Errorf("a bug")
	_, err = source.Ads(ctx, []jobs.Wanted{a, {Job: "d"}})
	require.EqualError(t, err, "a bug")
}

// Many panels at once ask once.
func TestCacheAsksOnce(t *testing.T) {
	memory := jobstest.NewMemory(history("a", time.Now()))
	source := jobs.NewCache(megabyte, time.Now).Source(memory, "k", nil)
	var panels sync.WaitGroup
	for range 20 {
		panels.Go(func() {
			result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "a"}, {Job: "b"}})
			if err != nil || len(result.Ads[0]) != 1 {
				t.Error(result, err)
			}
		})
	}
	panels.Wait()
	require.Equal(t, []string{"a", "b"}, memory.Asked())
}

func TestCacheIsBounded(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof(jobs.Ad{})), 410, "adBytes is too small")
	memory := jobstest.NewMemory()
	cache := jobs.NewCache(100_000, time.Now)
	source := cache.Source(memory, "k", nil)
	var wanted []jobs.Wanted
	for i := range 5000 {
		job := fmt.Sprintf("ap#%d.0#1", i)
		memory.Add(history(job, time.Unix(1759130000, 0)))
		wanted = append(wanted, jobs.Wanted{Job: job})
	}
	result, err := source.Ads(t.Context(), wanted)
	require.NoError(t, err)
	for i := range wanted {
		require.Len(t, result.Ads[i], 1) // also what found no room
	}
	require.Eventually(t, func() bool { return cache.Bytes() <= 100_000 }, 10*time.Second, time.Millisecond)
	require.Positive(t, cache.Bytes())
}

// Any user can write long texts into each job: they are cut, and count as what the cache holds.
func TestTextsOfUsersAreCounted(t *testing.T) {
	memory := jobstest.NewMemory()
	cache := jobs.NewCache(200_000, time.Now)
	source := cache.Source(memory, "k", nil)
	var wanted []jobs.Wanted
	for i := range 150 { // of 700 bytes each, and their texts
		job, long := fmt.Sprintf("ap#%d.0#1", i), strings.Repeat("x", 10_000)
		memory.Add(fmt.Appendf(nil, `{"GlobalJobId": %q, "RecordTime": 1759130000, "ChtcProjects": "%s%d"}`, job, long, i))
		wanted = append(wanted, jobs.Wanted{Job: job, LastSeen: time.Unix(1759129990, 0)})
	}
	result, err := source.Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Equal(t, []string{"150 texts in job ads are longer than 1024 bytes and were cut."}, result.Notices)
	projects := map[string]bool{}
	for _, ads := range result.Ads {
		require.LessOrEqual(t, len(ads[0].ChtcProjects), pool.MostText)
		projects[ads[0].ChtcProjects] = true
	}
	require.Len(t, projects, len(wanted))
	require.Eventually(t, func() bool { return cache.Bytes() <= 200_000 }, 10*time.Second, time.Millisecond)
	memory.Asked()
	require.Eventually(t, func() bool { // the cache evicts in the background
		_, err = source.Ads(t.Context(), wanted)
		return err != nil || len(memory.Asked()) > 0
	}, 10*time.Second, time.Millisecond, "there is not room for all")
	require.NoError(t, err)
}

// Cached ads share one copy of each text, so that a pool's names take memory once.
func TestCachedAdsShareTexts(t *testing.T) {
	noon := time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)
	memory := jobstest.NewMemory()
	for _, job := range []string{"ap#1.0#1", "ap#2.0#1"} {
		memory.Add(fmt.Appendf(nil, `{"GlobalJobId": %q, "RecordTime": %d, "JobStatus": 4, "StartdName": "m1",
			"AssignedGPUs": "GPU-1", "User": "ann@site", "ScheddName": "ap"}`, job, noon.Unix()))
	}
	source := jobs.NewCache(megabyte, time.Now).Source(memory, "k", nil)
	r, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1", LastSeen: noon}, {Job: "ap#2.0#1", LastSeen: noon}})
	require.NoError(t, err)
	a, b := r.Ads[0][0], r.Ads[1][0]
	require.Equal(t, []any{"m1", "ann@site", "ap", []string{"GPU-1"}}, []any{b.Machine, b.User, b.AccessPoint, b.GPUs})
	for _, texts := range [][2]string{{a.Machine, b.Machine}, {a.User, b.User}, {a.AccessPoint, b.AccessPoint},
		{a.GPUs[0], b.GPUs[0]}} {
		require.Same(t, unsafe.StringData(texts[0]), unsafe.StringData(texts[1]), texts[0])
	}
	require.Same(t, unsafe.SliceData(a.GPUs), unsafe.SliceData(b.GPUs))
}
