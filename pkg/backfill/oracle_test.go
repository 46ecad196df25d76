package backfill_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// The oracle of this file finds periods, averages and transitions with plain loops over the snapshots of a small
// machine, as methodology section 7 reads, and shares no code with the product.

const minute = int64(60e6)

// seen is what a snapshot shows of the machine: a letter a GPU, nil when the machine is silent.
//
//	T taken  1 2 used by that job  . available  B blocked  - absent (another row shows the GPU)
type seen struct {
	at   int64
	gpus []byte
}

type naivePeriod struct {
	gpu          int
	start, end   int64
	reason       string
	unknownStart bool
}

func (p naivePeriod) String() string {
	return fmt.Sprintf("%d %d–%d %s unknown=%v", p.gpu, p.start, p.end, p.reason, p.unknownStart)
}

type naive struct{ shots []seen }

// gapLimit is 2.5 times the median distance of the day's snapshots; of 15 minutes when there are fewer than 8
// distances.
func (n *naive) gapLimit() int64 {
	var distances []int64
	for i := 1; i < len(n.shots); i++ {
		distances = append(distances, n.shots[i].at-n.shots[i-1].at)
	}
	slices.Sort(distances)
	cadence := 15 * minute
	if k := len(distances); k >= 8 {
		cadence = (distances[(k-1)/2] + distances[k/2]) / 2
	}
	return cadence * 5 / 2
}

func (n *naive) gap(s int) bool { return n.shots[s+1].at-n.shots[s].at > n.gapLimit() }

// state is a letter, '?' when unknown. A slot that is recreated between two jobs has not left.
func (n *naive) state(gpu, s int) byte {
	inUse := func(s int) bool { return strings.IndexByte(".12", n.shown(gpu, s)) >= 0 }
	if s > 0 && s+1 < len(n.shots) && n.shots[s].gpus != nil && n.shown(gpu, s) == '-' && inUse(s-1) && inUse(s+1) &&
		!n.gap(s-1) && !n.gap(s) {
		return '.'
	}
	return n.shown(gpu, s)
}

// shown is the state that the snapshots show.
func (n *naive) shown(gpu, s int) byte {
	if n.shots[s].gpus != nil {
		return n.shots[s].gpus[gpu]
	}
	if s > 0 && s+1 < len(n.shots) && !n.gap(s-1) && !n.gap(s) && n.shots[s-1].gpus != nil && n.shots[s+1].gpus != nil &&
		n.shots[s-1].gpus[gpu] == n.shots[s+1].gpus[gpu] {
		return n.shots[s-1].gpus[gpu]
	}
	return '?'
}

func word(state byte) string {
	return map[byte]string{'T': "taken", '1': "used", '2': "used", '.': "available", 'B': "blocked", '-': "absent"}[state]
}

// periods are those that overlap [from, to], cut to it; states are those that belong to one.
func (n *naive) periods(gpus int, states string, from, to int64) (found []naivePeriod) {
	reasons := map[byte]string{'T': "reclaimed", '1': "claimed", '2': "claimed", 'B': "blocked", '-': "left", '?': "gap"}
	in := func(gpu, s int) bool { return strings.IndexByte(states, n.state(gpu, s)) >= 0 }
	for g := range gpus {
		for s := range n.shots {
			if !in(g, s) || s > 0 && !n.gap(s-1) && in(g, s-1) {
				continue
			}
			p := naivePeriod{gpu: g, start: n.shots[s].at, unknownStart: s == 0 || n.gap(s-1) || n.state(g, s-1) == '?'}
			last := s
			for last+1 < len(n.shots) && !n.gap(last) && in(g, last+1) {
				last++
			}
			switch {
			case last+1 == len(n.shots) && to-n.shots[last].at <= n.gapLimit():
				p.end, p.reason = to+1, "window"
			case last+1 == len(n.shots), n.gap(last), n.state(g, last+1) == '?':
				p.end, p.reason = n.shots[last].at, "gap"
			default:
				p.end, p.reason = n.shots[last+1].at, reasons[n.state(g, last+1)]
			}
			if p.end > to {
				p.end, p.reason = to, "window"
			}
			if p.start <= to && p.end >= from {
				found = append(found, p)
			}
		}
	}
	return found
}

func TestByDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const gpus = 2
		at := time.Date(2025, 6, 2, 1, 0, 0, 0, time.UTC).UnixMicro()
		var n naive
		now := []byte{'.', '.'}
		for range rapid.IntRange(1, 30).Draw(rt, "snapshots") {
			s := seen{at: at}
			for g := range now {
				if rapid.IntRange(0, 2).Draw(rt, "changes") == 0 {
					now[g] = rapid.SampledFrom([]byte("T12..B-")).Draw(rt, "state")
				}
			}
			if rapid.IntRange(0, 7).Draw(rt, "silent") != 0 {
				s.gpus = slices.Clone(now)
			}
			n.shots = append(n.shots, s)
			at += rapid.SampledFrom([]int64{15, 15, 15, 15, 30, 38}).Draw(rt, "minutes") * minute
		}
		begin := n.shots[0].at
		from := begin + rapid.Int64Range(-20, (at-begin)/minute).Draw(rt, "from")*minute
		to := from + rapid.Int64Range(0, 400).Draw(rt, "length")*minute
		s := n.open(rt, t)
		w := pool.Window{From: from, To: to}

		counts := map[string]float64{}
		for duration, states := range map[string]string{"vacancy": ".", "tenure": ".12"} {
			var want, got []string
			for _, p := range n.periods(gpus, states, from, to) {
				want = append(want, p.String())
				if duration == "vacancy" {
					switch {
					case p.unknownStart:
						counts["unknownStart"]++
					case p.reason == "gap" || p.reason == "window":
						counts["censored"]++
					default:
						counts["count"]++
						counts["gpuHours"] += float64(p.end-p.start) / 3600e6
					}
				}
			}
			for _, r := range golden.Rows(s.Ask(t, nil, w, fmt.Sprintf(`{"queryType": "backfillAvailability", "view": "periods", "duration": %q}`, duration))) {
				got = append(got, naivePeriod{int(r["gpu"].(string)[0] - '0'), r["start"].(time.Time).UnixMicro(),
					r["end"].(time.Time).UnixMicro(), r["endReason"].(string), r["unknownStart"].(bool)}.String())
				require.Equal(rt, r["endReason"] == "gap" || r["endReason"] == "window", r["censored"])
			}
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(rt, want, got, duration)
		}
		changes := map[string]float64{}
		inside := 0.0
		for i := range n.shots {
			if n.shots[i].at < from || n.shots[i].at > to {
				continue
			}
			inside++
			for g := range gpus {
				is := n.state(g, i)
				counts[word(is)]++
				if i > 0 && !n.gap(i-1) {
					if before := n.state(g, i-1); before != is && before != '?' && is != '?' {
						changes[word(before)+"→"+word(is)]++
					}
				}
			}
		}
		rows := golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "totals": false}`))
		if inside == 0 && len(rows) == 0 {
			require.Empty(rt, counts)
			return
		}
		for _, m := range []string{"count", "censored", "unknownStart", "gpuHours"} {
			require.True(rt, golden.Same(counts[m], rows[0][m]), "%s: want %v, got %v", m, counts[m], rows[0][m])
		}
		for _, m := range []string{"available", "used", "taken"} {
			if inside == 0 {
				require.Nil(rt, rows[0][m])
				continue
			}
			require.True(rt, golden.Same(counts[m]/inside, rows[0][m]), "%s: want %v, got %v", m, counts[m]/inside, rows[0][m])
		}
		got := map[string]float64{}
		for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "transitions"}`)) {
			got[r["from"].(string)+"→"+r["to"].(string)] = r["count"].(float64)
		}
		require.Equal(rt, changes, got)
	})
}

// open writes the snapshots as files. Another machine reports always, and each GPU has a backfill row on the day
// before, so that both are in the pool.
func (n *naive) open(rt *rapid.T, t *testing.T) runstest.Source {
	var rows []snapshotstest.Row
	row := func(at int64, slot, gpu, state string, job byte) {
		machine := "m1"
		if gpu == "z" {
			machine = "other"
		}
		r := snapshotstest.Row{"Name": slot + "@" + machine, "Machine": machine, "AssignedGPUs": gpu, "State": state,
			"timestamp": pool.Time(at).Format("2006-01-02 15:04:05.000000")}
		if job != 0 {
			r["GlobalJobId"], r["RemoteOwner"] = fmt.Sprintf("ap1#%c.0#1748851200", job), "bob"
		}
		rows = append(rows, r)
	}
	before := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	row(before, "slot1", "z", "Unclaimed", 0)
	for g := range 2 {
		row(before, "backfill2", fmt.Sprint(g), "Drained", 0)
	}
	for _, s := range n.shots {
		row(s.at, "slot1", "z", "Unclaimed", 0)
		for g, state := range s.gpus {
			id := fmt.Sprint(g)
			switch state {
			case 'T':
				row(s.at, "slot1_1", id, "Claimed", '9')
			case '1', '2':
				row(s.at, "backfill2_1", id, "Claimed", state)
			case '.':
				row(s.at, "backfill2", id, "Unclaimed", 0)
			case 'B':
				row(s.at, "backfill2", id, "Drained", 0)
			case '-':
				row(s.at, "slot1", id, "Unclaimed", 0)
			}
		}
	}
	dir, err := os.MkdirTemp(t.TempDir(), "pool")
	require.NoError(rt, err)
	db := snapshotstest.Open(t, dir, "gpu_state_2025-06.db", snapshotstest.Schema, "synchronous=off", "journal_mode=off")
	snapshotstest.Append(t, db, snapshotstest.Schema, rows...)
	require.NoError(rt, db.Close())
	return open(t, dir, "UTC")
}
