package allocation_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/pool"
)

// naiveState is what `current` and `stateTimeline` say of a GPU in a snapshot.
type naiveState struct {
	state, category, user, job, device, project string
	reasons                                     []string // PreventJobsReason of the rows that give the sides' states
}

// states are the naive states of a snapshot's GPUs, by machine|gpu.
func (p *naivePool) states(all []naiveSnapshot, i int) map[string]naiveState {
	rows := map[string][]*naiveRow{}
	for _, r := range all[i].rows {
		if str(r.machine) != "" && str(r.gpu) != "" && !p.isExcluded(*r.machine) {
			rows[*r.machine+"|"+*r.gpu] = append(rows[*r.machine+"|"+*r.gpu], r)
		}
	}
	found := map[string]naiveState{}
	for name, rows := range rows {
		var best [2]*naiveRow
		for _, r := range rows {
			side := 0
			if r.backfill() {
				side = 1
			}
			if best[side] == nil || rank(r.state) >= rank(best[side].state) {
				best[side] = r
			}
		}
		var reasons []string
		for _, r := range best {
			if r != nil && !blank(r.prevent) {
				reasons = append(reasons, *r.prevent)
			}
		}
		r := best[0]
		switch {
		case r != nil && rank(r.state) == 4:
		case best[1] != nil && rank(best[1].state) == 4, r == nil:
			r = best[1]
		}
		x := naiveState{project: naiveProject(r.project), reasons: reasons}
		switch {
		case rank(r.state) == 4 && r.backfill():
			x.state = "Backfill"
		case rank(r.state) == 4:
			x.state = "Claimed"
		case !blank(r.prevent):
			x.state = "Prevented"
		default:
			x.state = map[int]string{3: "Free", 2: "Drained", 1: "Other"}[rank(r.state)]
		}
		if rank(r.state) == 4 {
			x.user, x.job = cmp.Or(strings.TrimSpace(str(r.owner)), "Unknown"), str(r.job)
		}
		f := p.facts(all, naiveDay(r.at), *r.machine, *r.gpu)
		x.device = f.device
		switch {
		case r.backfill():
			x.category = "Backfill (" + f.ownership + ")"
		case slices.Contains(p.chtc, *r.machine):
			x.category = "Prioritized (CHTC Owned)"
		case !blank(r.project):
			x.category = "Prioritized (Researcher Owned)"
		default:
			x.category = "Open Capacity"
		}
		found[name] = x
	}
	return found
}

// current, stateTimeline, machines, health and annotations equal what the rows say.
func TestViewsEqualRows(t *testing.T) {
	dirs := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		p := oddPool(rt, rnd, rapid.SampledFrom([]string{"UTC", "America/Chicago"}).Draw(rt, "zone"),
			rapid.SampledFrom([]time.Time{
				time.Date(2025, 11, 1, 23, 10, 0, 0, time.UTC), time.Date(2025, 6, 30, 14, 3, 0, 0, time.UTC),
			}).Draw(rt, "start"))
		n++
		dir := filepath.Join(dirs, fmt.Sprint(n))
		p.write(rt, dir)
		all := p.snapshots()
		s := openPool(rt, dir, p.zone, rapid.SampledFrom([]int{0, 15}).Draw(rt, "sliceMinutes"))
		defer s.Timeline.Close()
		first, last := rnd.IntN(len(all)), rnd.IntN(len(all))
		w := pool.Window{From: all[min(first, last)].at, To: all[max(first, last)].at + int64(rnd.IntN(3))*usHour}
		checkCurrent(rt, p, all, s, w)
		checkStateTimeline(rt, p, all, s, w)
		checkMachines(rt, p, all, s, w)
		checkHealth(rt, p, all, s, w)
		checkChanges(rt, p, all, s, w)
	})
}

func newestOf(all []naiveSnapshot, to int64) int {
	newest := -1
	for i := range all {
		if all[i].at <= to {
			newest = i
		}
	}
	return newest
}

func checkCurrent(t tester, p *naivePool, all []naiveSnapshot, s source, w pool.Window) {
	t.Helper()
	newest := newestOf(all, w.To)
	want := p.states(all, newest)
	var names []string
	for _, r := range golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "current"}`)) {
		name := r["machine"].(string) + "|" + r["gpu"].(string)
		names = append(names, name)
		x, there := want[name]
		require.True(t, there, name)
		delete(want, name)
		require.Equal(t, []any{x.state, x.category, x.user, x.job, x.device},
			[]any{r["state"], r["category"], r["user"], r["job"], r["device"]}, name)
		since := newest
		for i := newest - 1; i >= 0 && all[i+1].at-all[i].at <= gapLimit(all, naiveDay(all[i].at)); i-- {
			if y, there := p.states(all, i)[name]; !there || y.state != x.state || y.user != x.user || y.job != x.job {
				break
			}
			since = i
		}
		require.True(t, golden.Same(time.UnixMicro(all[since].at).UTC().Format(time.RFC3339Nano), r["since"]),
			"%s since %v, want %v", name, r["since"], pool.Time(all[since].at))
		require.True(t, golden.Same(float64(all[newest].at-all[since].at)/float64(usHour), r["hours"]))
	}
	require.Empty(t, want, "GPUs are missing")
	require.True(t, slices.IsSorted(names))
}

func checkChanges(t tester, p *naivePool, all []naiveSnapshot, s source, w pool.Window) {
	t.Helper()
	newest := newestOf(all, w.To)
	type sight struct {
		first, last int
		device      string
		drained     bool
		turned      int
	}
	seen := func(from, to int64) (gpus map[string]sight, machines map[string]bool) {
		gpus, machines = map[string]sight{}, map[string]bool{}
		for i := range all {
			if all[i].at < from || all[i].at > to {
				continue
			}
			for name, x := range p.states(all, i) {
				g, known := gpus[name]
				if !known {
					g.first = i
				}
				if drained := x.state == "Drained"; !known || g.drained != drained {
					g.turned = i
				}
				gpus[name] = sight{g.first, i, x.device, x.state == "Drained", g.turned}
			}
			for _, r := range all[i].rows {
				machines[str(r.machine)] = true
			}
		}
		return gpus, machines
	}
	type key struct{ machine, device, user, change string }
	want, times := map[key]float64{}, map[key]int64{}
	before, machinesBefore := seen(w.From-usDay, w.From-1)
	within, _ := seen(w.From, w.To)
	_, machinesNow := seen(all[newest].at, all[newest].at)
	add := func(name string, g sight, machines map[string]bool, whole, part string, at int) {
		machine, _, _ := strings.Cut(name, "|")
		k := key{machine, g.device, "", part}
		if !machines[machine] {
			k.change = whole
		}
		want[k]++
		times[k] = max(times[k], all[at].at)
	}
	for name, g := range within {
		earlier, known := before[name]
		switch {
		case g.last != newest || len(machinesBefore) == 0:
		case !known:
			add(name, g, machinesBefore, "New machine", "New GPUs", g.first)
		case g.drained != earlier.drained:
			what := map[bool]string{true: "Drain began", false: "Drain ended"}[g.drained]
			add(name, g, machinesBefore, what, what, g.turned)
		}
	}
	held := func(from, to int64) (firsts map[string]int, gpus map[string]map[string]bool) {
		firsts, gpus = map[string]int{}, map[string]map[string]bool{}
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].at < from || all[i].at > to {
				continue
			}
			for name, x := range p.states(all, i) {
				if x.user != "" && x.user != "Unknown" {
					firsts[x.user] = i
					if gpus[x.user] == nil {
						gpus[x.user] = map[string]bool{}
					}
					gpus[x.user][name] = true
				}
			}
		}
		return firsts, gpus
	}
	earlier, _ := held(w.From-7*usDay, w.From-1)
	firsts, gpus := held(w.From, w.To)
	for user, first := range firsts {
		if _, known := earlier[user]; !known && len(machinesBefore) > 0 {
			k := key{user: user, change: "New user"}
			want[k], times[k] = float64(len(gpus[user])), all[first].at
		}
	}
	for name, g := range before {
		if later, again := within[name]; again {
			g = later
		}
		if g.last < newest && all[newest].at >= w.From {
			add(name, g, machinesNow, "Machine gone", "GPUs gone", g.last)
		}
	}
	for _, r := range golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "changes"}`)) {
		k := key{r["machine"].(string), r["device"].(string), r["user"].(string), r["change"].(string)}
		require.Equal(t, want[k], r["gpus"], "%v", k)
		require.True(t, golden.Same(time.UnixMicro(times[k]).UTC().Format(time.RFC3339Nano), r["since"]), "%v", k)
		delete(want, k)
	}
	require.Empty(t, want, "changes are missing")
}

var stateNumbers = map[string]float64{"Free": 0, "Claimed": 1, "Backfill": 2, "Drained": 3, "Prevented": 4, "Other": 5}

func checkStateTimeline(t tester, p *naivePool, all []naiveSnapshot, s source, w pool.Window) {
	t.Helper()
	frames := s.ask(t, w, `{"queryType": "allocation", "view": "stateTimeline", "filter": {"slots": ["Real"]}}`)
	value := func(f *data.Frame, at int64) any { // in force at a time
		state := any(nil)
		for i := range f.Fields[0].Len() {
			if f.Fields[0].At(i).(time.Time).UnixMicro() <= at {
				state = nil
				if v, ok := f.Fields[1].ConcreteAt(i); ok {
					state = float64(v.(int8))
				}
			}
		}
		return state
	}
	byName := map[string]*data.Frame{}
	for _, f := range frames {
		if len(f.Fields) == 0 {
			continue
		}
		byName[f.Fields[1].Labels["machine"]+"|"+f.Fields[1].Labels["gpu"]] = f
		for i := 1; i < f.Fields[0].Len(); i++ {
			require.True(t, f.Fields[0].At(i-1).(time.Time).Before(f.Fields[0].At(i).(time.Time)), "ascending")
		}
	}
	for i := range all {
		if !w.Contains(all[i].at) {
			continue
		}
		states := p.states(all, i)
		for name := range states {
			if x := states[name]; !strings.HasPrefix(x.category, "Backfill") {
				require.Contains(t, byName, name)
			}
		}
		for name, f := range byName {
			want := any(nil)
			if x, there := states[name]; there && !strings.HasPrefix(x.category, "Backfill") {
				want = stateNumbers[x.state]
			}
			require.Equal(t, want, value(f, all[i].at), "%s at %v", name, pool.Time(all[i].at))
			if limit := gapLimit(all, naiveDay(all[i].at)); i+1 < len(all) && all[i+1].at-all[i].at > limit {
				require.Nil(t, value(f, min(all[i].at+limit, w.To+1e12)), "%s in the gap after %v", name, pool.Time(all[i].at))
			}
		}
	}
}

func checkMachines(t tester, p *naivePool, all []naiveSnapshot, s source, w pool.Window) {
	t.Helper()
	list, slicesThere := p.results(all, s.env.SliceMinutes, w.From, w.To, true)
	type facts struct {
		gpus, devices, projects, given map[string]bool
		allocated, available, backfill float64
		drained                        float64
		lastSeen                       int64
		reasons                        map[string]int64
	}
	want := map[string]*facts{}
	here := func(machine string) *facts {
		if want[machine] == nil {
			want[machine] = &facts{gpus: map[string]bool{}, devices: map[string]bool{}, projects: map[string]bool{},
				given: map[string]bool{}, reasons: map[string]int64{}}
		}
		return want[machine]
	}
	members := func(list string) []string {
		return slices.DeleteFunc(strings.Split(list, ","), func(member string) bool { return member == "" })
	}
	for i, shot := range all {
		if !w.Contains(shot.at) {
			continue
		}
		for name, x := range p.states(all, i) {
			machine, _, _ := strings.Cut(name, "|")
			for _, member := range members(x.project) {
				here(machine).given[member] = true // by a row that gives the state
			}
			for _, reason := range x.reasons {
				here(machine).reasons[reason] = shot.at
			}
		}
		for _, r := range shot.rows {
			if str(r.machine) == "" {
				continue
			}
			if str(r.gpu) != "" {
				m := here(*r.machine)
				m.gpus[*r.gpu] = true
				for _, member := range members(naiveProject(r.project)) {
					m.projects[member] = true
				}
				m.devices[p.facts(all, naiveDay(shot.at), *r.machine, *r.gpu).device] = true
			}
			if m := want[*r.machine]; m != nil {
				m.lastSeen = shot.at
			}
		}
	}
	for _, x := range list {
		m := here(x.machine)
		switch {
		case x.slots == "Backfill" && x.state == "claimed":
			m.backfill++
		case x.slots == "Backfill":
		case x.state == "claimed":
			m.allocated++
			m.available++
		case x.state == "unclaimed":
			m.available++
		case x.state == "drained":
			m.drained++
		}
	}
	n := float64(len(slicesThere))
	hours := covered(p.coveredStretches(all, s.env.SliceMinutes), w.From, w.To)
	rows := golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "machines"}`))
	require.Len(t, rows, len(want))
	idle := 0
	for _, r := range rows {
		m := want[r["machine"].(string)]
		require.NotNil(t, m)
		require.True(t, golden.Same(time.UnixMicro(m.lastSeen).UTC().Format(time.RFC3339Nano), r["lastSeen"]),
			"%v last seen, want %v", r, pool.Time(m.lastSeen))
		figures := map[string]any{"gpus": float64(len(m.gpus)), "allocated": m.allocated / n,
			"backfillAllocated": m.backfill / n, "drained": m.drained / n, "allocatedPercent": nil,
			"drainedGpuHours": m.drained / n * hours, "wholeGpus": float64(len(m.gpus))}
		if m.available > 0 {
			figures["allocatedPercent"] = 100 * m.allocated / m.available
		}
		if p.isExcluded(r["machine"].(string)) {
			require.Equal(t, "old", r["excludedReason"])
			figures = map[string]any{"gpus": nil, "allocated": nil, "backfillAllocated": nil, "drained": nil,
				"allocatedPercent": nil, "drainedGpuHours": nil, "wholeGpus": nil}
		} else if m.allocated == 0 {
			idle++
		}
		for column, v := range figures {
			require.True(t, golden.Same(v, r[column]), "%s of %v, want %v", column, r, v)
		}
		if !p.isExcluded(r["machine"].(string)) {
			checkReasons(t, m.reasons, m.lastSeen, r)
		}
		var devices []string
		for d := range m.devices {
			devices = append(devices, d)
		}
		slices.Sort(devices)
		require.Equal(t, strings.Join(devices, ", "), r["devices"])
		projects := members(strings.ReplaceAll(r["projects"].(string), " ", ""))
		require.Subset(t, projects, slices.Collect(maps.Keys(m.given)))
		for _, project := range projects {
			require.True(t, m.projects[project], "%s of %v", project, r)
		}
	}
	require.Len(t, golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "machines", "filter": {"idle": true}}`)),
		idle)
}

func checkReasons(t tester, reasons map[string]int64, lastSeen int64, r map[string]any) {
	t.Helper()
	var active, lifted []string
	newest := int64(-1)
	for reason, at := range reasons {
		if newest = max(newest, at); at == lastSeen {
			active = append(active, reason)
		} else {
			lifted = append(lifted, reason)
		}
	}
	slices.Sort(active)
	slices.SortFunc(lifted, func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	state, at := "", any(nil)
	if newest >= 0 {
		at = time.UnixMicro(newest).UTC().Format(time.RFC3339Nano)
	}
	switch {
	case len(active) > 0:
		for i := range lifted {
			lifted[i] += " (lifted)"
		}
		state = "active"
	case len(lifted) > 0:
		state = "lifted"
	}
	require.Equal(t, strings.Join(append(active, lifted...), "; "), r["preventReasons"])
	require.Equal(t, state, r["preventState"])
	require.True(t, golden.Same(at, r["preventLastSeen"]), "%v, want %v", r["preventLastSeen"], at)
}

func checkHealth(t tester, p *naivePool, all []naiveSnapshot, s source, w pool.Window) {
	t.Helper()
	newest := newestOf(all, w.To)
	now := p.states(all, newest)
	lost := map[string]bool{}
	for i := range newest {
		if all[i].at >= all[newest].at-usDay {
			for name := range p.states(all, i) {
				if _, there := now[name]; !there {
					lost[name] = true
				}
			}
		}
	}
	coverage := 0.0
	if w.To > w.From {
		coverage = 100 * covered(p.coveredStretches(all, s.env.SliceMinutes), w.From,
			w.To) / (float64(w.To-w.From) / float64(usHour))
	}
	rows := golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "health"}`))
	require.Len(t, rows, 1)
	for column, v := range map[string]any{
		"snapshotAgeSeconds": float64(w.To-all[len(all)-1].at) / 1e6, "coveragePercent": coverage,
		"gpusSeen": float64(len(now)), "gpusLost": float64(len(lost)),
	} {
		require.True(t, golden.Same(v, rows[0][column]), "%s: want %v in %v", column, v, rows[0])
	}
	require.NotContains(t, rows[0], "linkRate", "left out without a job source")

	gaps := golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "annotations"}`))
	for i := 1; i < len(all); i++ {
		a, b := all[i-1].at, all[i].at
		if b-a > gapLimit(all, naiveDay(a)) && b > w.From && a < w.To {
			require.NotEmpty(t, gaps, "a gap from %v to %v", pool.Time(a), pool.Time(b))
			require.True(t, golden.Same(pool.Time(a).Format(time.RFC3339Nano), gaps[0]["time"]) &&
				golden.Same(pool.Time(b).Format(time.RFC3339Nano), gaps[0]["timeEnd"]), "%v: want %v to %v", gaps[0], pool.Time(a),
				pool.Time(b))
			gaps = gaps[1:]
		}
	}
	require.Empty(t, gaps)
}

// A window that is long after the data, or in an outage, still finds the newest snapshot before its end.
func TestCurrentLooksBack(t *testing.T) {
	p := &naivePool{zone: "UTC"}
	for _, text := range []string{"2025-06-02 12:00:00.000000", "2025-06-02 12:15:00.000000",
		"2025-06-20 00:00:00.000000"} {
		p.rows = append(p.rows, &naiveRow{file: "2025-06", text: text, name: ptr("slot1@m"), machine: ptr("m"),
			gpu: ptr("GPU-0"), state: ptr("Unclaimed")})
	}
	dir := filepath.Join(t.TempDir(), "pool")
	p.write(t, dir)
	s := open(t, dir, "UTC", 15)
	for to, age := range map[string]string{"2025-06-02T12:20:00Z": "", "2025-06-12T12:15:00Z": "240 h old",
		"2025-07-20T00:00:00Z": "720 h old"} {
		frames := s.ask(t, golden.Window(t, "2025-06-01T00:00:00Z", to), `{"queryType": "allocation", "view": "current"}`)
		require.Len(t, golden.Rows(frames), 1, to)
		if age == "" {
			require.False(t, hasNotice(frames, "old"))
		} else {
			require.True(t, hasNotice(frames, age), "%v", frames[0].Meta.Notices)
		}
	}
	frames := s.ask(t, golden.Window(t, "2025-05-01T00:00:00Z", "2025-06-02T11:00:00Z"),
		`{"queryType": "allocation", "view": "current"}`)
	require.Empty(t, frames[0].Fields)
}

func hasNotice(frames data.Frames, text string) bool {
	return strings.Contains(golden.Told(frames), text)
}
