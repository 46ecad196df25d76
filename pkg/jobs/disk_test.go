package jobs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/segcache"
)

// started is a source as a process that has just been started has it, with the cache directory of those before.
func started(t *testing.T, dir string, source jobs.Source, key string, now func() time.Time) jobs.Source {
	t.Helper()
	disk, err := segcache.OpenDisk(dir, "ads "+key, megabyte)
	require.NoError(t, err)
	s := jobs.NewCache(megabyte, now).Source(source, key, disk)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
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
	epochs, err := s.Epochs(t.Context(), []jobs.EpochDay{{MachineDay: day, Longest: time.Hour}})
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
				return []byte(strings.Replace(string(content), "ads 6\n", "ads 5\n", 1))
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
