package samplepool

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// days is o with a span of n days.
func days(o Options, n int) Options {
	o.End = o.Start.AddDate(0, 0, n)
	return o
}

func fingerprint(t *testing.T, o Options) uint64 {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	hash := fnv.New64a()
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		fmt.Fprintln(hash, shot.Timestamp, shot.Month, shot.Rows)
	}
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	fmt.Fprintln(hash, truth)
	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, ads)
	for _, ad := range ads {
		fmt.Fprintln(hash, ad.ID, string(ad.JSON), string(ad.Legacy))
	}
	return hash.Sum64()
}

func TestTheSeedDecides(t *testing.T) {
	o := days(Default(), 2)
	first := fingerprint(t, o)
	require.Equal(t, first, fingerprint(t, o))
	o.Seed++
	require.NotEqual(t, first, fingerprint(t, o))
}

// What the collector and the archive lose must not change what happens.
func TestFaultsOfObserversDoNotChangeTheTruth(t *testing.T) {
	o := days(Default(), 3)
	runs := func(o Options) []Run {
		p, err := New(o)
		require.NoError(t, err)
		truth, err := p.Truth(t.Context())
		require.NoError(t, err)
		return truth.Runs
	}
	before := runs(o)
	o.StaleRows, o.MissingAds, o.MissedSnapshots, o.DoubledSnapshots, o.Outages, o.RowNoise, o.MissingMachines = 0, 0.5,
		0.3, 0.2, 9, 0.1, 0.1
	require.Equal(t, before, runs(o))
}

func TestImpossibleOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"4 machines":                  func(o *Options) { o.Machines = 4 },
		"2001 machines":               func(o *Options) { o.Machines = 2001 },
		"11 GPUs on 12 machines":      func(o *Options) { o.GPUs = 11 },
		"it must end after its start": func(o *Options) { o.End = o.Start },
		"cadence 0s":                  func(o *Options) { o.Cadence = 0 },
		`time zone "Mars/Olympus"`:    func(o *Options) { o.Timezone = "Mars/Olympus" },
	} {
		o := Default()
		change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, name)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	}
}

// Every snapshot shows what truly is, read back by plain loops over rows and truth.
func TestRowsShowTheTruth(t *testing.T) {
	for seed := range uint64(3) {
		o := days(Default(), 4)
		o.Seed, o.MissingMachines, o.RowNoise, o.StaleRows, o.Drains, o.MachineDown = seed, 0, 0, 0, 2, 2
		p, truth := truthOf(t, o)
		machines := map[string]Machine{}
		for _, m := range p.Machines() {
			machines[m.Name] = m
		}
		shots := 0
		for shot, err := range p.Snapshots(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, truth.Snapshots[shots], shot.Time)
			shots++
			now := shot.Time.Truncate(time.Millisecond)

			want, leaving, free := map[string]string{}, map[string]bool{}, map[string]bool{}
			for _, r := range truth.Runs {
				if r.Start.After(now) || !now.Before(r.End) {
					continue
				}
				for _, g := range r.GPUs {
					if r.Backfill && (r.Reason == EvictedByPrimary || r.Reason == DrainedReason) && r.End.Sub(now) <= time.Minute {
						leaving[r.Machine+g] = true // its slot goes some seconds before its run ends
						continue
					}
					want[r.Slot+" "+g] = r.User + " " + map[bool]string{false: r.Job}[r.HiddenJobID]
				}
			}
			for _, a := range truth.Available {
				if !a.Start.After(now) && now.Before(a.End) {
					free[a.Machine+a.GPU] = true
				}
			}
			got, side := map[string]string{}, map[string]int{}
			for _, row := range shot.Rows {
				m := machines[row.Machine]
				require.Contains(t, m.GPUs, row.AssignedGPUs)
				require.True(t, strings.HasSuffix(row.Name, "@"+row.Machine))
				if row.State == "Claimed" {
					if !leaving[row.Machine+row.AssignedGPUs] || pool.SideOf(row.Name) == pool.Primary {
						got[row.Name+" "+row.AssignedGPUs] = row.RemoteOwner + " " + row.GlobalJobID
					}
					key := fmt.Sprint(pool.SideOf(row.Name), row.Machine, row.AssignedGPUs)
					require.Zero(t, side[key], "%s is claimed twice", key)
					side[key]++
				} else if row.State == "Unclaimed" && pool.SideOf(row.Name) == pool.Backfill && !m.Excluded &&
					!leaving[row.Machine+row.AssignedGPUs] {
					require.True(t, free[row.Machine+row.AssignedGPUs], "%s of %s is not free", row.AssignedGPUs, row.Name)
					delete(free, row.Machine+row.AssignedGPUs)
				}
			}
			require.Empty(t, free, "free GPUs without a row at %v", now)
			for key, who := range got { // a run that leaves within a minute may still be shown
				if w, ok := want[key]; ok {
					require.Equal(t, w, who, key)
				} else {
					require.Contains(t, key, "backfill")
				}
			}
			for key := range want {
				require.Contains(t, got, key)
			}
			if t.Failed() {
				return
			}
		}
		require.Equal(t, len(truth.Snapshots), shots)
	}
}

func truthOf(t *testing.T, o Options) (*Pool, *Truth) {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	return p, truth
}

// A GPU is always in at most one primary slot and one backfill slot, and free only while no claim holds it.
func TestTruthIsPossible(t *testing.T) {
	for seed := range uint64(5) {
		o := Default()
		o.Seed, o.Drains, o.MachineDown, o.Prevented = seed, 3, 3, 2
		_, truth := truthOf(t, o)
		type span struct {
			from, to time.Time
			what     string
		}
		held := map[string][]span{} // of a side of a GPU
		numbers := map[string]time.Time{}
		add := func(key string, s span) {
			require.False(t, s.to.Before(s.from), "%s %v", key, s)
			for _, other := range held[key] {
				require.False(t, s.from.Before(other.to) && other.from.Before(s.to), "%s: %v and %v", key, other, s)
			}
			held[key] = append(held[key], s)
		}
		for _, r := range truth.Runs {
			require.False(t, r.End.Before(o.Start) || r.End.After(o.End))
			require.Equal(t, r.Reason == Running, r.End.Equal(o.End))
			side := "primary"
			if r.Backfill {
				side = "backfill"
			}
			for _, g := range r.GPUs {
				add(fmt.Sprint(side, r.Machine, g), span{r.Start, r.End, r.Job})
			}
			key := fmt.Sprint(r.Job, r.Number)
			require.Zero(t, numbers[key], "a run has a number of its own")
			numbers[key] = r.Start
			if before, ok := numbers[fmt.Sprint(r.Job, r.Number-1)]; ok {
				require.True(t, before.Before(r.Start), "runs of a job follow one another")
			}
		}
		for _, a := range truth.Available {
			require.False(t, a.End.Before(o.Start) || a.End.After(o.End))
			add("primary"+a.Machine+a.GPU, span{a.Start, a.End, "free"})
			add("backfill"+a.Machine+a.GPU, span{a.Start, a.End, "free"})
		}
	}
}

// Times in queues are those between a job's runs, and before the first one.
func TestQueuesAreBetweenRuns(t *testing.T) {
	p, err := New(Default())
	require.NoError(t, err)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	runs := map[string][]Run{}
	for _, r := range truth.Runs {
		runs[r.Job] = append(runs[r.Job], r)
	}
	hows, polled := map[string]int{}, map[bool]int{}
	again := 0
	for _, i := range truth.Queues {
		hows[i.How]++
		polled[i.Polled]++
		require.False(t, i.End.Before(i.Begin), i.Job)
		for _, r := range runs[i.Job] {
			require.False(t, r.Start.Before(i.End) && r.End.After(i.Begin), "job %s runs while it is idle", i.Job)
			if i.How == IdleStarted && r.Start.Equal(i.End) {
				require.Equal(t, i.Stretch, r.Number)
			}
		}
		if i.Stretch > 1 {
			again++
		}
	}
	for _, how := range []string{IdleStarted, IdleRemoved, IdleHeld, IdleWaiting} {
		require.NotZero(t, hows[how], how)
	}
	require.Greater(t, again, 20, "evicted jobs wait again")
	require.Greater(t, polled[true], polled[false])
	require.NotZero(t, polled[false], "an access point is not polled")
}

// The files hold, of polled access points, exactly the polls that find a job idle.
func TestIdleRowsAreWhatPollsFind(t *testing.T) {
	o := Default()
	p, err := New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteQueues(t.Context(), dir))
	require.ErrorContains(t, p.WriteQueues(t.Context(), dir), "exists already")
	all, err := p.Queues(t.Context())
	require.NoError(t, err)
	idle := map[string][]Idle{}
	seen, found := 0, 0
	polls := p.Polls()
	for _, i := range all {
		idle[i.Job] = append(idle[i.Job], i)
		for _, poll := range polls {
			if i.Polled && !poll.Before(i.Begin) && poll.Before(i.End) {
				seen++
			}
		}
	}
	rows := 0
	for _, month := range []string{"2025-10", "2025-11"} { // Chicago's
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "job_pressure_"+month+".db")+"?mode=ro")
		require.NoError(t, err)
		lines, err := db.Query("SELECT GlobalJobId, ScheddName, QDate, first_seen, last_seen FROM job_pressure ORDER BY " +
			"rowid")
		require.NoError(t, err)
		before := int64(0)
		for lines.Next() {
			var job, schedd string
			var qdate, first, last int64
			require.NoError(t, lines.Scan(&job, &schedd, &qdate, &first, &last))
			require.GreaterOrEqual(t, first, before)
			before = first
			rows++
			require.NotEqual(t, p.schedds[len(p.schedds)-1].Name, schedd)
			for _, poll := range polls {
				if poll.Unix() < first || poll.Unix() > last {
					continue
				}
				require.Equal(t, month, poll.In(p.zone).Format("2006-01"))
				for _, i := range idle[job] {
					if !poll.Before(i.Begin) && poll.Before(i.End) {
						found++
					}
				}
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, lines.Close())
		require.NoError(t, db.Close())
	}
	require.Greater(t, rows, 100)
	require.Equal(t, seen, found, "each sighting stands in a row")
	longest := time.Duration(0)
	for i := 1; i < len(polls); i++ {
		longest = max(longest, polls[i].Sub(polls[i-1]))
	}
	require.Greater(t, longest, 2*time.Hour, "an outage of the poller")
	o.Polls = 0
	p, err = New(o)
	require.NoError(t, err)
	require.NoError(t, p.WriteQueues(t.Context(), t.TempDir()))
}

func decode(t *testing.T, ad []byte) map[string]any {
	t.Helper()
	var document map[string]any
	require.NoError(t, json.Unmarshal(ad, &document))
	return document
}

// Each ad says about its run what truly happened, by its access point's clock.
func TestAdsTellTheTruth(t *testing.T) {
	o := days(Default(), 14)
	o.MissingAds = 0
	p, truth := truthOf(t, o)
	skews := map[string]int64{}
	for _, s := range p.AccessPoints() {
		skews[s.Name] = s.ClockAhead
	}
	runs := map[string]Run{}
	last := map[string]Run{}
	for _, r := range truth.Runs {
		runs[fmt.Sprint(r.Job, " ", r.Number)] = r
		if r.Number > last[r.Job].Number {
			last[r.Job] = r
		}
	}
	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	epochs, history, largest := map[string]bool{}, map[string]bool{}, int64(0)
	for _, ad := range ads {
		d := decode(t, ad.JSON)
		number := func(name string) int64 {
			n, ok := d[name].(float64)
			require.True(t, ok, "%s in %s", name, ad.JSON)
			return int64(n)
		}
		require.Equal(t, ad.GlobalJobID, d["GlobalJobId"])
		require.Equal(t, ad.RecordTime, number("RecordTime"))
		parts := strings.Split(ad.GlobalJobID, "#")
		require.Equal(t, parts[0], d["ScheddName"])
		require.Equal(t, fmt.Sprintf("%d.%d#%d", number("ClusterId"), number("ProcId"), number("QDate")),
			parts[1]+"#"+parts[2])
		skew := skews[parts[0]]
		largest = max(largest, skew, -skew)
		key := fmt.Sprint(ad.GlobalJobID, " ", number("NumShadowStarts"))
		r, ok := runs[key]
		if !ok {
			continue // a run that ended before the pool's Start
		}
		require.Equal(t, strings.Join(r.GPUs, ","), d["AssignedGPUs"])
		require.Equal(t, r.Machine, d["StartdName"])
		require.Equal(t, r.Slot, d["LastRemoteHost"])
		require.Equal(t, r.User, d["User"])
		require.Equal(t, r.Start.Unix()+skew, number("JobCurrentStartDate"))
		require.LessOrEqual(t, number("QDate"), number("JobStartDate"))
		if ad.Epoch && !r.SavedUntil.IsZero() {
			require.Equal(t, r.SavedUntil.Unix()+skew, number("JobLastCheckpointTime"))
		} else {
			require.NotContains(t, d, "JobLastCheckpointTime")
		}
		ended := func(r Run) int64 {
			if r.Reason == HostDown { // it is given up after the lease
				return r.End.Unix() + skew + 2400
			}
			return r.End.Unix() + skew
		}
		end := ended(r)
		vacated, counted, all := int64(0), map[string]any{}, true
		for n := 1; n <= r.Number; n++ {
			earlier, known := runs[fmt.Sprint(r.Job, " ", n)]
			name := map[Reason]string{EvictedByPrimary: "StartdPreemptExpression", DrainedReason: "StartdDraining",
				HostDown: "ReconnectFailed", Held: "JobOutOfResources"}[earlier.Reason]
			if all = all && known; name == "" {
				continue
			}
			if vacated == 0 {
				vacated = ended(earlier)
			}
			if n < r.Number || !ad.Epoch {
				count, _ := counted[name].(float64)
				counted[name] = count + 1
			}
		}
		if all { // no run ended before the pool's Start
			first, _ := d["LastVacateTime"].(float64)
			require.EqualValues(t, vacated, first, "the first vacate: %s", ad.JSON)
			if d["NumVacatesByReason"] == nil {
				d["NumVacatesByReason"] = map[string]any{}
			}
			require.Equal(t, counted, d["NumVacatesByReason"], "%s", ad.JSON)
		}
		require.Equal(t, end, number("JobCurrentStartDate")+number("LastRemoteWallClockTime"))
		if ad.Epoch {
			epochs[key] = true
			require.Equal(t, end, number("EpochWriteDate"))
			require.Equal(t, r.Reason == Completed, d["ExitCode"] != nil)
			if r.Reason != Completed {
				code := map[Reason]int64{EvictedByPrimary: 1011, DrainedReason: 1014, HostDown: 1008, Removed: 1023,
					Held: 34}[r.Reason]
				require.Equal(t, code, number("VacateReasonCode"))
			}
			continue
		}
		history[ad.GlobalJobID] = true
		require.Equal(t, r, last[r.Job], "a history ad describes the last run")
		switch status := number("JobStatus"); status {
		case complete:
			require.Equal(t, Completed, r.Reason)
			require.Equal(t, end, number("CompletionDate"))
		case held:
			require.Equal(t, Held, r.Reason)
			require.Equal(t, end, number("EnteredCurrentStatus"))
		case removed:
			require.Equal(t, map[int64]bool{running: r.Reason == Removed, held: r.Reason == Held,
				idle: r.Reason == EvictedByPrimary || r.Reason == DrainedReason || r.Reason == HostDown}[number("LastJobStatus")],
				true)
			require.Nil(t, d["CompletionDate"])
		default:
			t.Fatalf("status %d", status)
		}
	}
	require.InDelta(t, 117, largest, 2, "one clock is nearly two minutes off")
	for key, r := range runs {
		switch {
		case r.Reason == Running:
			require.False(t, epochs[key])
			require.False(t, history[r.Job], "a job in the queue has no history ad")
		case r.Reason != HostDown: // reported 40 minutes later, perhaps after the pool's End
			require.True(t, epochs[key], "%+v", r)
			if r.Reason == Completed || r.Reason == Removed {
				require.True(t, history[r.Job], "%+v", r)
			}
		}
	}
}

func traces(t *testing.T) map[string]*run {
	t.Helper()
	runs := map[string]*run{}
	for seed := range uint64(80) {
		r := &run{start: 1_000_000 + int64(seed), gpus: make([]*gpu, 1+seed%4), job: &job{work: 20 * hour}}
		r.trace = newTrace(seed, r)
		runs[fmt.Sprintf("%s %d", r.trace.course, seed)] = r
	}
	return runs
}

// A trace is the same in any order of reading, never computes on more GPUs than there are, and its idle stretches are
// those found by reading every second.
func TestTraces(t *testing.T) {
	seen := map[Course]int{}
	for name, r := range traces(t) {
		x := r.trace
		seen[x.course]++
		end := r.start + 20*hour
		whole := x.busy(end)
		rnd := rand.New(rand.NewPCG(1, 2))
		before := 0.0
		for at := r.start; at < end; at += rnd.Int64N(10 * minute) {
			now := x.busy(at)
			require.GreaterOrEqual(t, now, before, name)
			require.LessOrEqual(t, now, x.gpus*float64(at-r.start)+1e-6, name)
			before = now
		}
		require.Equal(t, whole, x.busy(end))
		var idle [][2]int64
		from := int64(-1)
		for at := r.start; at <= end; at += second {
			rest := at < end && x.busy(at+second)-x.busy(at) < 0.01*x.gpus*float64(second)
			switch {
			case rest && from < 0:
				from = at
			case !rest && from >= 0:
				if at-from >= shortestIdle {
					idle = append(idle, [2]int64{from, at})
				}
				from = -1
			}
		}
		got := x.idle(end)
		require.Len(t, got, len(idle), name)
		for i := range idle {
			require.InDelta(t, idle[i][0], got[i][0].UnixMilli(), 1500, name)
			require.InDelta(t, idle[i][1], got[i][1].UnixMilli(), 1500, name)
		}
		switch x.course {
		case Sleeper:
			require.Less(t, whole, 0.004*x.gpus*float64(end-r.start))
		case OneGPU:
			require.Greater(t, x.gpus, 1.0)
			require.LessOrEqual(t, whole, float64(end-r.start))
		case Dead:
			require.Equal(t, whole, x.busy(max(x.dies, r.start)), "nothing after its death")
		}
	}
	for _, c := range []Course{Steady, Dead, Sleeper, OneGPU, Slow} {
		require.NotZero(t, seen[c], c)
	}
}
