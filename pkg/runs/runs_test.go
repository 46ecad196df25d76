package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/timeline"
)

// lengthy is a pool of machines with one GPU each that keeps its state for days: of each machine a snapshot's state,
// "available", or the job that holds the GPU, on backfill (b…) or on a primary slot (p…).
type lengthy struct {
	begin  time.Time
	states [][]string
}

// The snapshots come every hour for 14 days.
const lengthySnapshots = 14 * 24

func newLengthy(random *rand.Rand) *lengthy {
	l := &lengthy{begin: time.Date(2025, 6, 1, 0, 20, 0, 0, time.UTC)}
	for m := range 12 {
		var states []string
		for job := 1; len(states) < lengthySnapshots; job++ {
			state := []string{"available", fmt.Sprintf("b#%d.%d#1", m+1, job),
				fmt.Sprintf("p#%d.%d#1", m+1, job)}[random.IntN(3)]
			if n := len(states); n > 0 && states[n-1] == state {
				continue
			}
			states = append(states, slices.Repeat([]string{state}, 1+random.IntN(250))...)
		}
		l.states = append(l.states, states[:lengthySnapshots])
	}
	return l
}

func machineName(m int) string { return fmt.Sprintf("m%02d", m) }

func (l *lengthy) time(i int) time.Time { return l.begin.Add(time.Duration(i) * time.Hour) }

func (l *lengthy) write(t *testing.T) (dir string) {
	var rows []snapshotstest.Row
	for i := range lengthySnapshots {
		for m, states := range l.states {
			name := machineName(m)
			r := snapshotstest.Row{"Machine": name, "AssignedGPUs": "GPU-a", "Name": "backfill2@" + name, "State": "Unclaimed",
				"timestamp": l.time(i).Format("2006-01-02 15:04:05.000000")}
			if s := states[i]; s != "available" {
				r["State"], r["GlobalJobId"], r["RemoteOwner"] = "Claimed", s, "u"
				if s[0] == 'p' {
					r["Name"] = "slot1_1@" + name
				}
			}
			rows = append(rows, r)
		}
	}
	dir = t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	return dir
}

// stretches are where a machine's snapshots from one onward hold, each [first, end).
func stretches(states []string, since int, holds func(state string) bool, same bool) (all [][2]int) {
	for i := since; i < len(states); {
		end := i + 1
		for end < len(states) && holds(states[end]) && (!same || states[end] == states[i]) {
			end++
		}
		if holds(states[i]) {
			all = append(all, [2]int{i, end})
		} else {
			end = i + 1
		}
		i = end
	}
	return all
}

// periods are those that a window lists, by definition (methodology section 7).
func (l *lengthy) periods(from, to time.Time, tenures bool) (lines []string) {
	since := l.since(from)
	holds := func(s string) bool { return s == "available" || tenures && s[0] == 'b' }
	for m, states := range l.states {
		for _, p := range stretches(states, since, holds, false) {
			end, reason := to, "window"
			if p[1] < lengthySnapshots && !l.time(p[1]).After(to) {
				end, reason = l.time(p[1]), map[byte]string{'b': "claimed", 'p': "reclaimed"}[states[p[1]][0]]
			}
			if start := l.time(p[0]); !start.After(to) && !end.Before(from) {
				lines = append(lines, fmt.Sprint(machineName(m), start, end, reason, p[0] == since && since > 0,
					p[0] == since && since == 0))
			}
		}
	}
	return lines
}

// runs are those that a window lists (section 8).
func (l *lengthy) runs(from, to time.Time) (lines []string) {
	since := l.since(from)
	for m, states := range l.states {
		for _, r := range stretches(states, since, func(s string) bool { return s[0] == 'b' }, true) {
			if start := l.time(r[0]); !start.After(to) && (r[1] == lengthySnapshots || !l.time(r[1]).Before(from)) {
				lines = append(lines, fmt.Sprint(machineName(m), start))
			}
		}
	}
	return lines
}

// since is the first snapshot at most 7 days before the window.
func (l *lengthy) since(from time.Time) int {
	since := 0
	for l.time(since).Before(from.AddDate(0, 0, -7)) {
		since++
	}
	return since
}

// Moving windows share an observation, and each sees runs that begin up to 7 days before it.
func TestWindowsThatMoveOn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := newLengthy(random)
	s := runstest.Open(t, l.write(t), "UTC")
	listed := func(w pool.Window, query string, columns ...string) (lines []string) {
		for _, r := range golden.Rows(s.Ask(t, nil, w, query)) {
			values := []any{r["machine"]}
			for _, c := range columns {
				values = append(values, r[c])
			}
			lines = append(lines, fmt.Sprint(values...))
		}
		return lines
	}
	last := l.time(lengthySnapshots - 1)
	truncated := 0
	for i := range 60 {
		to := last.Add(-time.Duration(i*7) * time.Minute)
		from := to.Add(-time.Duration(1+random.IntN(150*60)) * time.Minute)
		if i%4 == 0 {
			from = l.time(24 * 7).Add(time.Duration(random.IntN(5*24)) * time.Hour) // a snapshot begins the reach
		}
		w := pool.NewWindow(from, to)
		for _, duration := range []string{"vacancy", "tenure"} {
			want := l.periods(from, to, duration == "tenure")
			got := listed(w, fmt.Sprintf(`{"queryType": "backfillAvailability", "view": "periods", "duration": %q,
				"limit": 50000}`, duration), "start", "end", "endReason", "leftTruncated", "unknownStart")
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got, "%v – %v", from, to)
		}
		want, got := l.runs(from, to), listed(w, `{"queryType": "evictions", "view": "runs", "limit": 50000}`, "start")
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got, "%v – %v", from, to)
		for m := range l.states {
			if since := l.since(from); l.states[m][since] == l.states[m][since-1] {
				truncated++
			}
		}
	}
	require.Greater(t, truncated, 100, "the pool's states do last")
}

// Ads that come late are seen when it is time to ask again, and at once if another question has found them.
func TestKnownSeesLateAds(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	o, err := s.Runs.ObserveWindow(t.Context(), w, s.Env.Lists)
	require.NoError(t, err)
	now := time.Date(2025, 11, 3, 6, 0, 0, 0, time.UTC)
	memory := jobstest.NewMemory()
	cache := jobs.NewCache(1<<26, func() time.Time { return now })
	source := cache.Source(memory, "memory", nil)
	known := func() *runs.History {
		k, err := o.History(t.Context(), source)
		require.NoError(t, err)
		return k
	}
	linked := func(k *runs.History) (n int) {
		for m := range k.Machines {
			for _, e := range k.Machines[m].Runs {
				if e.Link.Linked() {
					n++
				}
			}
		}
		return n
	}
	first := known()
	require.Zero(t, linked(first))
	require.NotEmpty(t, memory.Asked())
	require.Same(t, first, known())
	require.Empty(t, memory.Asked())

	memory.Add(bytes.Split(bytes.TrimSpace(golden.Read(t, "pool-b", "jobs_epochs.jsonl")), []byte("\n"))...)
	now = now.Add(4 * time.Minute)
	require.Same(t, first, known(), "too early to ask again")
	now = now.Add(2 * time.Minute)
	fresh := known()
	require.NotSame(t, first, fresh)
	require.Positive(t, linked(fresh), "runs that were seen lately")
	now = now.Add(7 * time.Hour)
	require.Greater(t, linked(known()), linked(fresh), "all others")
}

// hanging is a job source that answers when it is released.
type hanging struct {
	jobs.Source
	asked, release chan struct{}
}

func (h hanging) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	select {
	case h.asked <- struct{}{}: // the first time
	case <-h.release:
	}
	<-h.release
	return h.Source.Ads(ctx, wanted)
}

// A lookup that waits for another's request to a hanging source is answered in time, from snapshots only.
func TestKnownDoesNotWaitForAHangingSource(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	o, err := s.Runs.ObserveWindow(t.Context(), golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z"),
		s.Env.Lists)
	require.NoError(t, err)
	source := hanging{jobstest.NewMemory(), make(chan struct{}), make(chan struct{})}
	done := make(chan error)
	go func() {
		_, err := o.History(t.Context(), source)
		done <- err
	}()
	<-source.asked
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	known, err := o.History(ctx, source)
	require.NoError(t, err)
	require.ErrorContains(t, known.Failure, "has not answered another query yet")
	require.False(t, known.Sharp)
	require.Positive(t, len(known.Machines[0].Runs))
	cancel()
	_, err = o.History(ctx, source)
	require.ErrorIs(t, err, context.Canceled)
	close(source.release)
	require.NoError(t, <-done)
}

// A link case is a little pool, written down: snapshots every 15 minutes from 12:00 on, one column of a GPU's line
// each.
//
//	1  held by job 1 on backfill      T  taken by an owner's job     .  available
//	2  held by job 2                  ?  held without a GlobalJobId  _  its machine has no row
//	|  a gap of an hour before the next column
//
// Times are minutes after 12:00. An ad is written as attributes; times in it are such minutes too.
type linkCase struct {
	name string
	gpus map[string]string // "m1 a": line
	ads  []ad
	want []string // of the runs on backfill, in the order of their first snapshots
}

type ad map[string]any

const job1, job2 = "ap1#1.0#1748851200", "ap1#2.0#1748851200"

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// of is an ad of job 1's run on machine m1 and GPU a.
func of(kind string, start float64, more ad) ad {
	a := ad{"kind": kind, "GlobalJobId": job1, "StartdName": "m1", "StartdSlot": "backfill2_1", "AssignedGPUs": "a",
		"JobCurrentStartDate": start, "RecordTime": 1000.0}
	for k, v := range more {
		a[k] = v
	}
	return a
}

func epoch(start, end float64, more ad) ad {
	a := of("epoch", start, ad{"EpochWriteDate": end})
	for k, v := range more {
		a[k] = v
	}
	return a
}

func completed(start, end float64) ad {
	return of("history", start, ad{"JobStatus": 4, "CompletionDate": end})
}

var linkCases = []linkCase{
	{"no ad", map[string]string{"m1 a": ".11.."}, nil, []string{"15–45 ambiguous none - none"}},
	{"takeover without an ad", map[string]string{"m1 a": ".11T."}, nil,
		[]string{"15–45 evicted takeover owner preemption none"}},
	{"seen again elsewhere", map[string]string{"m1 a": ".11..", "m2 b": "....1"}, nil,
		[]string{"15–45 evicted reappeared unknown none", "60–60 running none - none"}},
	{"times of a history ad", map[string]string{"m1 a": ".11.."}, []ad{completed(10, 40)},
		[]string{"10–40 completed job ad - last run"}},

	// brackets: start in (0 − 2, 15 + 2], end in [30 − 2, 45 + 2]
	{"start too early", map[string]string{"m1 a": "..11.."}, []ad{completed(13, 50)},
		[]string{"30–50 completed job ad - last run"}},
	{"start just in", map[string]string{"m1 a": "..11.."}, []ad{completed(13.1, 50)},
		[]string{"13.1–50 completed job ad - last run"}},
	{"start as late as can be", map[string]string{"m1 a": "..11.."}, []ad{completed(32, 50)},
		[]string{"32–50 completed job ad - last run"}},
	{"end as early as can be", map[string]string{"m1 a": ".11.."}, []ad{completed(10, 28)},
		[]string{"10–28 completed job ad - last run"}},
	{"end too early", map[string]string{"m1 a": ".11.."}, []ad{completed(10, 27.9)},
		[]string{"10–45 completed job ad - last run"}},
	{"end as late as can be", map[string]string{"m1 a": ".11.."}, []ad{completed(10, 47)},
		[]string{"10–47 completed job ad - last run"}},
	{"end too late", map[string]string{"m1 a": ".11.."}, []ad{completed(10, 47.1)},
		[]string{"10–45 completed job ad - last run"}},
	{"first snapshot of the data", map[string]string{"m1 a": "11..."}, []ad{completed(-900, 20)},
		[]string{"-900–20 completed job ad - last run"}},
	{"an end before the start", map[string]string{"m1 a": "..1..."}, []ad{completed(12, 28.5)},
		[]string{"30–30 completed job ad - last run clamped"}},

	// a history ad's end
	{"removed while running", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 10, ad{"JobStatus": 3, "LastJobStatus": 2, "LastRemoteWallClockTime": 1800.0,
			"EnteredCurrentStatus": 41.0})}, []string{"10–40 removed job ad - last run"}},
	{"removed while idle", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 10, ad{"JobStatus": 3, "LastJobStatus": 1, "LastVacateTime": 38.0,
			"LastRemoteWallClockTime": 1800.0, "EnteredCurrentStatus": 300.0})},
		[]string{"10–38 evicted job ad unknown last run"}},
	{"removed while idle, after a takeover", map[string]string{"m1 a": ".11TT"},
		[]ad{of("history", 10, ad{"JobStatus": 3, "LastJobStatus": 1, "LastRemoteWallClockTime": 1800.0,
			"EnteredCurrentStatus": 300.0})}, []string{"10–40 evicted job ad owner preemption last run"}},
	{"removed while held", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 10, ad{"JobStatus": 3, "LastJobStatus": 5, "EnteredCurrentStatus": 300.0})},
		[]string{"10–45 held job ad - last run"}},
	{"held", map[string]string{"m1 a": ".11.."}, []ad{of("history", 10,
		ad{"JobStatus": 5, "EnteredCurrentStatus": 41.0})}, []string{"10–41 held job ad - last run"}},

	// which ad
	{"an ad of another machine", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 10, ad{"StartdName": "m2", "JobStatus": 4, "CompletionDate": 40.0})},
		[]string{"15–45 ambiguous none - job only"}},
	{"an ad of another GPU", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 10, ad{"AssignedGPUs": "b", "JobStatus": 4, "CompletionDate": 40.0})},
		[]string{"15–45 ambiguous none - job only"}},
	{"epoch before history", map[string]string{"m1 a": ".11.."},
		[]ad{completed(10, 40), epoch(10, 41, ad{"VacateReasonCode": 1013})},
		[]string{"10–41 evicted job ad drain or maintenance epoch"}},
	{"an epoch without an outcome", map[string]string{"m1 a": ".11T."}, []ad{epoch(10, 41, nil)},
		[]string{"10–41 evicted takeover owner preemption epoch"}},
	{"an epoch that exited", map[string]string{"m1 a": ".11T."}, []ad{epoch(10, 41, ad{"ExitCode": 1})},
		[]string{"10–41 completed job ad - epoch"}},
	{"the epoch that overlaps", map[string]string{"m1 a": ".1...."},
		[]ad{epoch(10, 16, ad{"ExitCode": 0}), epoch(16.5, 20, ad{"VacateReasonCode": 1011})},
		[]string{"10–16 completed job ad - epoch"}},
	{"of two epochs the later one", map[string]string{"m1 a": ".1...."},
		[]ad{epoch(5, 14, ad{"VacateReasonCode": 1011}), epoch(14.5, 14.8, ad{"ExitCode": 0})},
		[]string{"14.5–14.8 completed job ad - epoch"}},

	// earlier runs
	{"a later run elsewhere", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 90, ad{"StartdName": "m2", "JobStatus": 4, "CompletionDate": 100.0, "JobStartDate": 5.0,
			"LastVacateTime": 41.0})}, []string{"5–41 evicted job ad unknown earlier run"}},
	{"the run before the last", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 90, ad{"JobStatus": 4, "CompletionDate": 100.0, "JobLastStartDate": 8.0,
			"JobStartDate": -500.0})}, []string{"8–45 evicted job ad unknown earlier run"}},
	{"a later run, but held before", map[string]string{"m1 a": ".11....", "m2 b": ".....1."},
		[]ad{of("history", 70, ad{"StartdName": "m2", "AssignedGPUs": "b", "JobStatus": 4, "CompletionDate": 100.0,
			"NumHolds": 1})}, []string{"15–45 ambiguous none - earlier run", "70–90 completed job ad - last run"}},
	{"held before, and vacated then", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 90, ad{"JobStatus": 4, "NumHolds": 1, "LastVacateTime": 44.0})},
		[]string{"15–44 ambiguous none - earlier run"}},
	{"held before, and taken over", map[string]string{"m1 a": ".11T."},
		[]ad{of("history", 90, ad{"JobStatus": 4, "NumHolds": 1})},
		[]string{"15–45 evicted takeover owner preemption earlier run"}},
	{"its own epoch is missing", map[string]string{"m1 a": ".11.."}, []ad{epoch(90, 100, ad{"ExitCode": 0})},
		[]string{"15–45 evicted job ad unknown earlier run"}},

	{"a start elsewhere just after last seen", map[string]string{"m1 a": ".11.."},
		[]ad{of("history", 31, ad{"StartdName": "m2", "JobStatus": 4, "CompletionDate": 50.0})},
		[]string{"15–45 evicted job ad unknown earlier run"}},
	{"a start here just after last seen", map[string]string{"m1 a": ".11.."}, []ad{completed(31, 40)},
		[]string{"15–40 completed job ad - last run"}},
	{"an epoch that starts just after last seen", map[string]string{"m1 a": ".1.."}, []ad{epoch(16, 20, nil)},
		[]string{"16–20 ambiguous none - epoch"}},
	{"of two ads of one start the one written last", map[string]string{"m1 a": ".11.."}, []ad{
		of("history", 90, ad{"StartdName": "m2", "JobStatus": 4, "JobLastStartDate": 9.0, "RecordTime": 1000.0}),
		of("history", 90, ad{"StartdName": "m2", "JobStatus": 5, "JobLastStartDate": 7.0, "RecordTime": 500.0}),
	}, []string{"9–45 evicted job ad unknown earlier run"}},

	// starts inside
	{"a start inside", map[string]string{"m1 a": ".1111."}, []ad{completed(40, 70)},
		[]string{"15–40 evicted job ad unknown earlier run", "40–70 completed job ad - last run"}},
	{"a start inside, vacated before", map[string]string{"m1 a": ".1111."},
		[]ad{of("history", 40, ad{"JobStatus": 4, "CompletionDate": 70.0, "LastVacateTime": 34.0})},
		[]string{"15–34 evicted job ad unknown earlier run", "40–70 completed job ad - last run"}},
	{"a start at the last snapshot", map[string]string{"m1 a": ".1111."}, []ad{completed(60, 70)},
		[]string{"15–60 evicted job ad unknown earlier run", "60–70 completed job ad - last run"}},
	{"a start that is too early to be inside", map[string]string{"m1 a": ".1111."}, []ad{completed(17, 70)},
		[]string{"17–70 completed job ad - last run"}},
	{"a run between two snapshots", map[string]string{"m1 a": ".1111."},
		[]ad{epoch(10, 31, ad{"VacateReasonCode": 1011}), epoch(33, 38, ad{"VacateReasonCode": 1013}),
			epoch(41, 70, ad{"ExitCode": 0})},
		[]string{"10–31 evicted job ad owner preemption epoch", "33–38 evicted job ad drain or maintenance epoch",
			"41–70 completed job ad - epoch"}},
	{"a restart from a checkpoint", map[string]string{"m1 a": ".1111."},
		[]ad{epoch(10, 40, ad{"VacateReasonCode": 1025}), epoch(40, 70, ad{"ExitCode": 0})},
		[]string{"10–40 yielded job ad - epoch", "40–70 completed job ad - epoch"}},
	{"last start and first start do not split", map[string]string{"m1 a": ".1111."},
		[]ad{of("history", 10, ad{"JobStatus": 4, "CompletionDate": 70.0, "JobLastStartDate": 40.0, "JobStartDate": 50.0})},
		[]string{"10–70 completed job ad - last run"}},

	// gaps and silence
	{"lost", map[string]string{"m1 a": ".11|.."}, nil, []string{"15–30 lost none - none"}},
	{"lost, and there again", map[string]string{"m1 a": ".11|11."}, nil, []string{"15–120 ambiguous none - none"}},
	{"lost, and there again elsewhere", map[string]string{"m1 a": ".11|...", "m2 b": "...|11."}, nil,
		[]string{"15–30 evicted reappeared unknown none", "90–120 ambiguous none - none"}},
	{"one ad over a gap", map[string]string{"m1 a": ".11|11."}, []ad{completed(10, 115)},
		[]string{"10–115 completed job ad - last run"}},
	{"one ad over a silence", map[string]string{"m1 a": ".11__1.", "m2 b": "......."}, []ad{completed(10, 80)},
		[]string{"10–80 completed job ad - last run"}},
	{"two ads at a gap", map[string]string{"m1 a": ".11|11."},
		[]ad{epoch(10, 50, ad{"VacateReasonCode": 1008}), epoch(70, 115, ad{"ExitCode": 0})},
		[]string{"10–50 evicted job ad fault epoch", "70–115 completed job ad - epoch"}},
	{"one ad over a gap, and a start inside", map[string]string{"m1 a": ".11|11."},
		[]ad{epoch(10, 115, ad{"ExitCode": 0}), epoch(80, 85, ad{"VacateReasonCode": 1011})},
		[]string{"10–80 completed job ad - epoch", "80–120 ambiguous none - job only"}},
	{"an end in a gap", map[string]string{"m1 a": ".11|..."}, []ad{completed(10, 60)},
		[]string{"10–60 completed job ad - last run"}},
	{"two runs around two silent snapshots", map[string]string{"m1 a": ".11__11.", "m2 b": "........"},
		[]ad{completed(70, 95)},
		[]string{"15–30 evicted job ad unknown earlier run", "70–95 completed job ad - last run"}},
	{"an end after a silence", map[string]string{"m1 a": ".11__..", "m2 b": "......."}, []ad{completed(10, 60)},
		[]string{"10–30 completed job ad - last run"}},

	// the end of the data
	{"running", map[string]string{"m1 a": "..11"}, nil, []string{"30–45 running none - none"}},
	{"ended after the last snapshot", map[string]string{"m1 a": "..11"}, []ad{completed(25, 300)},
		[]string{"25–300 completed job ad - last run"}},
	{"ended just before the last snapshot", map[string]string{"m1 a": "..11"}, []ad{completed(25, 43)},
		[]string{"25–43 completed job ad - last run"}},
	{"an ad of before", map[string]string{"m1 a": "..11"}, []ad{completed(25, 42)},
		[]string{"25–45 running none - last run"}},

	// without a GlobalJobId
	{"by machine and time", map[string]string{"m1 a": ".??.."},
		[]ad{of("history", 12, ad{"GlobalJobId": job2, "JobStatus": 4, "CompletionDate": 41.0})},
		[]string{"12–41 completed job ad - machine and time"}},
	{"the nearest", map[string]string{"m1 a": ".??.."},
		[]ad{epoch(5, 6, ad{"GlobalJobId": job2, "ExitCode": 0}), epoch(12, 41, ad{"VacateReasonCode": 1011})},
		[]string{"12–41 evicted job ad owner preemption machine and time"}},
	{"not on a primary slot", map[string]string{"m1 a": ".??.."},
		[]ad{of("history", 12, ad{"GlobalJobId": job2, "StartdSlot": "slot1_1", "JobStatus": 4, "CompletionDate": 41.0})},
		[]string{"15–45 ambiguous none - none"}},
	{"not another GPU", map[string]string{"m1 a": ".??.."},
		[]ad{of("history", 12, ad{"GlobalJobId": job2, "AssignedGPUs": "b", "JobStatus": 4, "CompletionDate": 41.0})},
		[]string{"15–45 ambiguous none - none"}},
	{"not at the first snapshot", map[string]string{"m1 a": "??..."},
		[]ad{of("history", -1, ad{"GlobalJobId": job2, "JobStatus": 4, "CompletionDate": 20.0})},
		[]string{"0–30 ambiguous none - none"}},
}

// What a snapshot with rows of 200 s shows may have begun, or ended, up to 120 s after its last row.
var stampedCases = []linkCase{
	{"a start between the rows", map[string]string{"m1 a": "..11.."}, []ad{completed(35.2, 50)},
		[]string{"35.2–50 completed job ad - last run"}},
	{"the latest end", map[string]string{"m1 a": "..11.."}, []ad{completed(29, 65.2)},
		[]string{"29–65.2 completed job ad - last run"}},
	{"an end too late", map[string]string{"m1 a": "..11.."}, []ad{completed(29, 65.4)},
		[]string{"29–60 completed job ad - last run"}},
	{"a start too early", map[string]string{"m1 a": "..11.."}, []ad{completed(12.9, 50)},
		[]string{"30–50 completed job ad - last run"}},
	{"one run without an id", map[string]string{"m1 a": "..??.."},
		[]ad{of("history", 35.2, ad{"GlobalJobId": job2, "JobStatus": 4, "CompletionDate": 65.2})},
		[]string{"35.2–65.2 completed job ad - machine and time"}},
}

func TestLinkStampedRows(t *testing.T) {
	for _, c := range stampedCases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.explainStamped(t, 200)) })
	}
}

func TestLink(t *testing.T) {
	for _, c := range linkCases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.explain(t)) })
	}
}

// The table "Vacate codes → outcome of the run" of htcondor.md.
func TestVacateCodes(t *testing.T) {
	want := map[int]string{34: "held job ad -", 0: "evicted job ad fault", 999: "held job ad -", 1023: "removed job ad -",
		1025: "yielded job ad -", 1038: "evicted job ad unknown", 1500: "evicted job ad unknown"}
	for text, codes := range map[string][]int{
		"evicted job ad owner preemption":        {1011},
		"evicted job ad user or rank preemption": {1018, 1019},
		"evicted job ad drain or maintenance":    {1010, 1013, 1014, 1015, 1016, 1037},
		"evicted job ad fault":                   {1002, 1005, 1007, 1008, 1012, 1020, 1021, 1024},
		"evicted job ad access point":            {1000, 1001, 1004, 1009, 1017, 1022},
		"ambiguous none -": {1003, 1006, 1026, 1027, 1028, 1029, 1030, 1031, 1032, 1033, 1034, 1035,
			1036},
	} {
		for _, code := range codes {
			want[code] = text
		}
	}
	for code := 1000; code <= 1037; code++ {
		require.Contains(t, want, code, "every code up to 1037 has a meaning")
	}
	for code, text := range want {
		for kind, a := range map[string]ad{"epoch": epoch(10, 40, ad{"VacateReasonCode": code}),
			"last run": of("history", 10, ad{"VacateReasonCode": code, "JobStatus": 3, "LastJobStatus": 1,
				"LastRemoteWallClockTime": 1800.0})} {
			line := fmt.Sprintf("10–40 %s %s", text, kind)
			if code > 1037 {
				line += fmt.Sprintf(" code %d", code)
			}
			c := linkCase{gpus: map[string]string{"m1 a": ".11.."}, ads: []ad{a}}
			require.Equal(t, []string{line}, c.explain(t), "code %d", code)
		}
	}
}

// explain writes the pool down as files and lets the product explain its runs on backfill.
func (c *linkCase) explain(t *testing.T) []string {
	t.Helper()
	return c.explainStamped(t, 0)
}

// explainStamped is explain of a collector that stamps each row: those of the GPUs so many seconds after the first.
func (c *linkCase) explainStamped(t *testing.T, seconds int) []string {
	t.Helper()
	columns := 0
	var files []snapshotstest.Row
	for _, line := range c.gpus {
		columns = len(line)
	}
	at := noon
	var times []pool.Micros
	for i := range columns {
		if slices.ContainsFunc(slices.Collect(maps.Values(c.gpus)), func(line string) bool { return line[i] == '|' }) {
			at = at.Add(45 * time.Minute)
			continue
		}
		text := at.Format("2006-01-02 15:04:05.000000")
		times = append(times, at.UnixMicro())
		files = append(files, snapshotstest.Row{"Name": "slot1@other", "Machine": "other", "State": "Unclaimed",
			"AssignedGPUs": "z", "timestamp": text})
		for s := 16; s <= seconds; s += 16 {
			text = at.Add(time.Duration(s) * time.Second).Format("2006-01-02 15:04:05.000000")
			files = append(files, snapshotstest.Row{"Name": fmt.Sprintf("slot%d@other", s), "Machine": "other",
				"State": "Unclaimed", "AssignedGPUs": fmt.Sprint("z", s), "timestamp": text})
		}
		if seconds > 0 {
			text = at.Add(time.Duration(seconds) * time.Second).Format("2006-01-02 15:04:05.000000")
		}
		for key, line := range c.gpus {
			machine, gpu, _ := strings.Cut(key, " ")
			r := snapshotstest.Row{"Machine": machine, "AssignedGPUs": gpu, "timestamp": text, "Name": "backfill2@" + machine,
				"State": "Claimed"}
			switch line[i] {
			case '_':
				continue
			case '.':
				r["State"] = "Unclaimed"
			case '1':
				r["GlobalJobId"], r["RemoteOwner"] = job1, "bob"
			case '2':
				r["GlobalJobId"], r["RemoteOwner"] = job2, "bob"
			case '?':
				r["RemoteOwner"] = "bob"
			case 'T':
				r["Name"], r["GlobalJobId"], r["RemoteOwner"] = "slot1_1@"+machine, "ap9#9.9#1748851200", "owner"
			}
			files = append(files, r)
		}
		at = at.Add(15 * time.Minute)
	}
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, "gpu_state_2025-06.db", snapshotstest.Schema, "synchronous=off", "journal_mode=off")
	snapshotstest.Append(t, db, snapshotstest.Schema, files...)
	require.NoError(t, db.Close())
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: registry.OpenDir(d, localtime.UTC), MaxBytes: 1 << 24})
	defer func() { require.NoError(t, tl.Close()) }()
	o, err := runs.NewObserver(tl, 1<<24).ObserveWindow(context.Background(), pool.Window{From: times[0],
		To: times[len(times)-1]},
		pool.Lists{})
	require.NoError(t, err)

	source := jobstest.NewMemory()
	for _, a := range c.ads {
		document := map[string]any{}
		for k, v := range a {
			if minutes, ok := v.(float64); ok && k != "LastRemoteWallClockTime" {
				v = noon.Unix() + int64(minutes*60)
			}
			document[k] = v
		}
		if a["kind"] == "epoch" {
			document["RecordTime"] = document["EpochWriteDate"]
		}
		delete(document, "kind")
		text, err := json.Marshal(document)
		require.NoError(t, err)
		source.Add(text)
	}
	known, err := o.History(context.Background(), source)
	require.NoError(t, err)
	require.NoError(t, known.Failure)
	require.Empty(t, known.Notices)
	var all []runs.Explained
	for _, m := range known.Machines {
		for _, e := range m.Runs {
			if e.Side == pool.Backfill {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b runs.Explained) int { return int(a.Start - b.Start) })
	minutes := func(at pool.Micros) string {
		return fmt.Sprintf("%g", float64(at-noon.UnixMicro())/60e6)
	}
	lines := []string{}
	for _, e := range all {
		cause := e.Cause.String()
		if cause == "" {
			cause = "-"
		}
		line := fmt.Sprintf("%s–%s %s %s %s %s", minutes(e.Start), minutes(e.End), e.Outcome, e.Evidence, cause, e.Link)
		if e.Clamped {
			line += " clamped"
		}
		if e.UnknownCode != 0 {
			line += fmt.Sprintf(" code %d", e.UnknownCode)
		}
		lines = append(lines, line)
	}
	return lines
}
