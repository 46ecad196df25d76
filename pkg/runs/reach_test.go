package runs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
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
