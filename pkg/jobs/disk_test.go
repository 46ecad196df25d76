package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/jobstest"
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// started is a source as a process that has just been started has it, with the cache directory of those before.
func started(t *testing.T, dir string, source jobs.Source, key string, now func() time.Time) jobs.Source {
	t.Helper()
	disk, err := keep.OpenDisk(dir, "ads "+key, megabyte)
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
	bucket *bucket.Bucket // instead of dir
}

// started is a process that has just been started.
func (d *disked) started(t *testing.T, source jobs.Source, key string) jobs.Source {
	t.Helper()
	if d.bucket == nil {
		return started(t, d.dir, source, key, d.now)
	}
	return sharing(t, d.bucket, source, key, d.now)
}

func newDisked(t *testing.T) *disked {
	t.Helper()
	noon := time.Date(2025, 10, 5, 12, 0, 0, 0, time.UTC)
	return &disked{clock: &clock{noon}, dir: t.TempDir(), memory: jobstest.NewMemory(history("a", noon.AddDate(0, 0, -2)))}
}

const finishedDay = 20364 // 2025-10-03

// ask returns the number of ads that a process finds that has just been started, and whom it asked about.
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

// After a restart finished days are asked for when they would have been without one, so late ads are found.
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

// What is not this source's, or not as it was written, is not believed; nor are incomplete answers and running days.
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
				return []byte(strings.Replace(string(content), "ads 1\n", "ads 0\n", 1))
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
	files, err := filepath.Glob(filepath.Join(dir, keep.Folder, "*ads"))
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
