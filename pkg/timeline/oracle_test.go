package timeline

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
)

// drawnRow is a row as a test draws it, with the time that its text is meant to say.
type drawnRow struct {
	at   pool.Micros
	shot pool.Micros // the time of its snapshot, as the oracle finds it
	slot string
	gpu  string
	snapshotstest.Row
}

// drawPool draws the rows of a few days of a tiny pool with everything that methodology section 1 knows: doubled, late
// and missed runs, outages, duplicate rows, several claims of a GPU, rows without a GPU, silent machines.
func drawPool(t *rapid.T, zone *time.Location, start pool.Micros) []drawnRow {
	var rows []drawnRow
	at := start + rapid.Int64Range(0, 20*pool.Hour).Draw(t, "begin")
	n := rapid.IntRange(1, 60).Draw(t, "snapshots")
	for range n {
		step := rapid.SampledFrom([]pool.Micros{7 * pool.Second, 18 * pool.Second, 18 * pool.Second, 20 * pool.Second,
			30 * pool.Second, 60 * pool.Second, 61 * pool.Second, 5 * pool.Minute,
			15 * pool.Minute, 15 * pool.Minute, 40 * pool.Minute, 3 * pool.Hour}).Draw(t, "step")
		at += step + rapid.Int64Range(0, 999_999).Draw(t, "micros")
		const layout = "2006-01-02 15:04:05.000000"
		text := pool.Time(at).In(zone).Format(layout)
		if first := at - pool.Hour; pool.Time(first).In(zone).Format(layout) == text &&
			(len(rows) == 0 || first > rows[len(rows)-1].at) {
			at = first // nothing says that the second pass of the repeated hour was meant
		}
		for m := range 2 {
			if rapid.IntRange(0, 7).Draw(t, "silent") == 0 {
				continue
			}
			machine := []string{"m0", "backfill-m1"}[m] // a machine's name says nothing about its slots
			for range rapid.IntRange(0, 4).Draw(t, "rows") {
				slot := rapid.SampledFrom([]string{"slot1", "slot1_1", "slot3", "backfill2", "Backfill2_1",
					"data1_1"}).Draw(t, "slot") + "@" + machine
				row := drawnRow{at: at, slot: slot, gpu: rapid.SampledFrom([]string{"GPU-a", "GPU-b", "CUDA0", "", " ",
					"GPU-a, GPU-b", ",CUDA0,", " , "}).Draw(t, "gpu"), Row: snapshotstest.Row{
					"Name": slot, "Machine": machine, "timestamp": text,
					"State": rapid.SampledFrom([]any{"Claimed", "Claimed", "Preempting", "Unclaimed", "Matched",
						"Drained", "Owner", nil}).Draw(t, "state"),
					"PrioritizedProjects": rapid.SampledFrom([]any{nil, "", "  ", "Chem", "Phys,Bio"}).Draw(t, "projects"),
					"GPUs_DeviceName":     rapid.SampledFrom([]any{nil, "", "NVIDIA H200", "NVIDIA L40S"}).Draw(t, "device"),
					"GPUs_GlobalMemoryMb": rapid.SampledFrom([]any{nil, 0, 143771, "45589", "much"}).Draw(t, "memory"),
					"RemoteOwner":         rapid.SampledFrom([]any{nil, "alice", "bob"}).Draw(t, "owner"),
					"GlobalJobId": rapid.SampledFrom([]any{nil, "ap#1.0#1748851200", "ap#12.3#1748851201", "odd id",
						"ap#01.0#5", "#1.2#3"}).Draw(t, "job"),
					"PreventJobsReason": rapid.SampledFrom([]any{nil, "", "broken", " maintenance "}).Draw(t, "prevent"),
					"SlotBrokenReason":  rapid.SampledFrom([]any{nil, nil, nil, " ", "cpuset"}).Draw(t, "broken"),
					"BackfillSlot":      rapid.SampledFrom([]any{nil, nil, 0, 1}).Draw(t, "backfill slot"),
					"SlotType":          rapid.SampledFrom([]any{nil, "Dynamic", "Partitionable"}).Draw(t, "type"),
					"Cpus":              rapid.SampledFrom([]any{nil, 0, 8, 0.5}).Draw(t, "cpus"),
					"Memory":            rapid.SampledFrom([]any{nil, 1024, 515000}).Draw(t, "memory left"),
				}}
				if row.gpu != "" {
					row.Row["AssignedGPUs"] = row.gpu
				}
				for range 1 + rapid.IntRange(0, 9).Draw(t, "doubled")/9 {
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

// stateNames are those of the oracle's states.
var stateNames = [...]string{"None", "Other", "Drained", "Unclaimed", "Claimed"}

// said is what the oracle finds a side of a GPU to say in a snapshot.
type said struct {
	state, project, user, job string
	prevented, reason         string
}

type oracle struct {
	times   []pool.Micros
	ends    []pool.Micros
	sides   map[string]said            // time|machine|gpu|side
	claims  map[string]map[string]bool // the same key: "user|job" of all claimed rows
	reports map[string]bool            // time|machine
	without map[pool.Micros]int
	model   map[string][2]string // day|machine|gpu: device, memory
	owner   map[string]string    // day|machine
	rooms   map[string][2]string // time|machine: Cpus and Memory, "?" = unknown
}

// ids are those that a row's AssignedGPUs names.
func ids(assigned string) (all []string) {
	if !strings.Contains(assigned, ",") {
		return []string{assigned}
	}
	for _, id := range strings.Split(assigned, ",") {
		if id = strings.TrimSpace(id); id != "" {
			all = append(all, id)
		}
	}
	if all == nil {
		return []string{""}
	}
	return all
}

func sideOf(r drawnRow) string {
	slot, _, _ := strings.Cut(r.slot, "@")
	if strings.Contains(strings.ToLower(slot), "backfill") || r.Row["BackfillSlot"] == 1 {
		return "Backfill"
	}
	return "Real"
}

// room adds up what the last rows of a machine's slots in a snapshot say.
func room(rows []drawnRow) [2]string {
	last := map[string]drawnRow{}
	for _, r := range rows {
		last[r.slot] = r
	}
	var sum [2]string
	for i, column := range []string{"Cpus", "Memory"} {
		total := 0.0
		for _, r := range last {
			amount, err := strconv.ParseFloat(fmt.Sprint(r.Row[column]), 64)
			if err != nil {
				amount = math.NaN()
			}
			total += amount
		}
		sum[i] = fmt.Sprint(total)
	}
	return sum
}

// ask answers from the rows by plain loops.
func ask(rows []drawnRow) oracle {
	o := oracle{sides: map[string]said{}, claims: map[string]map[string]bool{}, reports: map[string]bool{},
		without: map[pool.Micros]int{}, model: map[string][2]string{}, owner: map[string]string{},
		rooms: map[string][2]string{}}
	rows = slices.DeleteFunc(slices.Clone(rows), func(r drawnRow) bool { return strings.HasPrefix(r.slot, "data") })
	o.shoot(rows)
	// snapshots in the order of time, the rows of each in the order of their file
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].shot < rows[j].shot })
	text := func(v any) string {
		if v == nil {
			return ""
		}
		return strings.TrimSpace(fmt.Sprint(v))
	}
	rank := map[string]int{"Claimed": 4, "Unclaimed": 3, "Drained": 2, "Other": 1}
	anyProject, primary, primaryProject := map[string]bool{}, map[string]bool{}, map[string]bool{}
	roomy := map[string][]drawnRow{}
	var each []drawnRow // a row for each GPU
	for _, r := range rows {
		if sideOf(r) == "Real" && r.Row["SlotType"] == "Partitionable" {
			key := fmt.Sprint(r.shot, r.Row["Machine"])
			roomy[key] = append(roomy[key], r)
			o.rooms[key] = room(roomy[key])
		}
		for _, id := range ids(r.gpu) {
			r.gpu = id
			each = append(each, r)
		}
	}
	for _, r := range each {
		at, machine := r.shot, r.Row["Machine"].(string)
		date := at / pool.Day
		o.reports[fmt.Sprint(at, machine)] = true
		if strings.TrimSpace(r.gpu) == "" {
			o.without[at]++
			continue
		}
		state := map[string]string{"Claimed": "Claimed", "Preempting": "Claimed", "Unclaimed": "Unclaimed",
			"Matched": "Unclaimed", "Drained": "Drained"}[text(r.Row["State"])]
		broken := text(r.Row["SlotBrokenReason"])
		if state == "" || broken != "" {
			state = "Other"
		}
		side := sideOf(r)
		s := said{state: state, prevented: text(r.Row["PreventJobsReason"])}
		if s.reason = s.prevented; s.reason == "" {
			s.reason = broken
		}
		projects := strings.Split(text(r.Row["PrioritizedProjects"]), ",")
		sort.Strings(projects)
		s.project = strings.Join(projects, ",")
		key := fmt.Sprint(at, machine, r.gpu, side)
		if state == "Claimed" {
			s.user, s.job = text(r.Row["RemoteOwner"]), text(r.Row["GlobalJobId"])
			if o.claims[key] == nil {
				o.claims[key] = map[string]bool{}
			}
			o.claims[key][s.user+"|"+s.job] = true
		}
		if old, ok := o.sides[key]; !ok || rank[state] >= rank[old.state] {
			o.sides[key] = s
		}
		day := fmt.Sprint(date, machine)
		m := o.model[day+r.gpu]
		if d := text(r.Row["GPUs_DeviceName"]); d != "" {
			m[0] = d
		}
		if d := text(r.Row["GPUs_GlobalMemoryMb"]); d != "" {
			m[1] = d
		}
		o.model[day+r.gpu] = m
		anyProject[day] = anyProject[day] || s.project != ""
		if side == "Real" {
			primary[day] = true
			primaryProject[day] = primaryProject[day] || s.project != ""
		}
		o.owner[day] = "Open Capacity"
		if primaryProject[day] || !primary[day] && anyProject[day] {
			o.owner[day] = "Researcher Owned"
		}
	}
	return o
}

// shoot finds the snapshot of each row, one row after the other.
func (o *oracle) shoot(rows []drawnRow) {
	byTime := make([]*drawnRow, len(rows))
	for i := range rows {
		byTime[i] = &rows[i]
	}
	sort.SliceStable(byTime, func(i, j int) bool { return byTime[i].at < byTime[j].at })
	var before []*drawnRow // of the snapshot
	for _, r := range byTime {
		again := func(b *drawnRow) bool {
			same := slices.ContainsFunc(ids(b.gpu), func(id string) bool {
				return slices.ContainsFunc(ids(r.gpu), func(of string) bool {
					return strings.TrimSpace(id) == strings.TrimSpace(of)
				})
			})
			return same && b.slot == r.slot && r.at-b.at >= pool.Minute
		}
		if n := len(before); n == 0 || r.at-before[0].at >= pool.Minute && (r.at-before[n-1].at >= 20*pool.Second ||
			r.at-before[0].at >= 5*pool.Minute || slices.ContainsFunc(before, again)) {
			before = nil
			o.times, o.ends = append(o.times, r.at), append(o.ends, r.at)
		}
		before = append(before, r)
		r.shot, o.ends[len(o.ends)-1] = before[0].at, r.at
	}
}

// requireEqual compares every GPU in every snapshot of the view with the oracle.
func requireEqual(t require.TestingT, o oracle, v *View) {
	require.Equal(t, o.times, v.Times)
	require.Equal(t, o.ends, v.Ends)
	cells := 0
	for n, d := range v.Days {
		jobs := d.Jobs()
		for i := range d.GPUs() {
			machineSymbol, idSymbol := v.Names.GPU(d.GPU(i))
			machine, id := v.Names.Text(machineSymbol), v.Names.Text(idSymbol)
			day := fmt.Sprint(int64(d.Date), machine)
			want := o.model[day+id]
			require.Equal(t, want[0], v.Names.Text(d.Model(i).Device))
			if memory, err := strconv.ParseFloat(want[1], 64); err == nil {
				require.Equal(t, memory, d.Model(i).Memory)
			} else {
				require.True(t, math.IsNaN(d.Model(i).Memory))
			}
			require.Equal(t, o.owner[day], d.Machines[d.MachineOf(i)].Ownership(false).String())
			first, status := d.Spans(i)
			require.EqualValues(t, 0, first[0])
			for k := range first {
				last := len(d.Times) - 1
				if k+1 < len(first) {
					last = int(first[k+1]) - 1
					require.NotEqual(t, status[k], status[k+1], "two spans with one status")
				}
				rows, silent := d.StatusRows(status[k]), status[k] == Silent
				for x := int(first[k]); x <= last; x++ {
					at := d.Times[x]
					require.Equal(t, o.reports[fmt.Sprint(at, machine)], !silent)
					require.Equal(t, o.reports[fmt.Sprint(at, machine)], d.Reports(d.MachineOf(i), x))
					for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
						key := fmt.Sprint(at, machine, id, side)
						row := *rows[side]
						want, ok := o.sides[key]
						if !ok {
							require.Equal(t, Row{}, row)
							require.True(t, jobs[status[k]][side].IsNone())
							continue
						}
						cells++
						got := said{stateNames[row.State], v.Names.Text(row.Project), v.Names.Text(row.User),
							v.Names.JobText(jobs[status[k]][side]), want.prevented, v.Names.Text(row.Reason)}
						require.Equal(t, want.prevented != "", row.Prevented)
						require.Equal(t, want, got)
						claims := map[string]bool{}
						if row.State == pool.Claimed {
							claims[got.user+"|"+got.job] = true
						}
						for _, c := range d.FurtherClaims(status[k]) {
							if c.Side == side {
								claims[v.Names.Text(c.User)+"|"+v.Names.JobText(c.Job)] = true
							}
						}
						require.Equal(t, len(o.claims[key]), len(claims))
						for c := range o.claims[key] {
							require.Contains(t, claims, c)
						}
					}
				}
			}
		}
		for m := range d.Machines {
			requireRooms(t, o, v, d, m)
		}
		for x, at := range d.Times {
			require.EqualValues(t, o.without[at], d.RowsWithoutGPU[x])
		}
		require.Equal(t, v.Base[n], sort.Search(len(v.Times), func(i int) bool { return v.Times[i] >= d.Times[0] }))
	}
	require.Equal(t, len(o.sides), cells, "rows lost")
}

// requireRooms compares a machine's room, of each snapshot and of all up to it, with the oracle.
func requireRooms(t require.TestingT, o oracle, v *View, d *Day, m int) {
	var newest [2]string
	for x, at := range d.Times {
		want, known := o.rooms[fmt.Sprint(at, v.Names.Text(d.Machines[m].Name))]
		if known {
			newest = want
		}
		for from, want := range map[int][2]string{x: want, 0: newest} {
			got, ok := d.Room(m, from, x+1)
			require.Equal(t, want != [2]string{}, ok)
			if ok {
				require.Equal(t, want, [2]string{fmt.Sprint(got.Cpus), fmt.Sprint(got.Memory)})
			}
		}
	}
}

// However rows come, a few at a time, in the midst of a snapshot, with restarts between: the days that grow say what
// the rows say.
func TestDaysGrow(testingT *testing.T) {
	rapid.Check(testingT, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"UTC", "America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe"}).Draw(t, "zone")
		location, err := localtime.Location(name)
		require.NoError(t, err)
		start := time.Date(2025, 10, 29, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 4).Draw(t, "day")).UnixMicro()
		rows := drawPool(t, location, start)
		dir, cache := testingT.TempDir(), testingT.TempDir()
		var tl *Timeline
		defer func() {
			if tl != nil {
				_ = tl.Close()
			}
		}()
		for from := 0; from < len(rows); {
			to := min(len(rows), from+rapid.SampledFrom([]int{1, 3, 10, 100, len(rows)}).Draw(t, "rows"))
			if name == "UTC" && rapid.IntRange(0, 4).Draw(t, "late") == 0 { // the half of them that comes first is late
				half := (from + to) / 2
				copy(rows[from:to], slices.Concat(rows[half:to], rows[from:half]))
			}
			appendDrawn(testingT, dir, rows[from:to])
			if from = to; tl == nil || rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				if tl != nil {
					require.NoError(t, tl.Close())
				}
				tl = open(testingT, dir, name, cache)
			}
			o := ask(rows[:to])
			if len(o.times) == 0 { // slots for data only
				continue
			}
			if rapid.IntRange(0, 4).Draw(t, "part first") == 0 {
				_, err = tl.Load(testingT.Context(), o.times[len(o.times)/2], o.times[len(o.times)/2])
				require.NoError(t, err)
			}
			v, err := tl.Load(testingT.Context(), o.times[0], o.times[len(o.times)-1])
			require.NoError(t, err)
			requireEqual(t, o, v)
			for _, d := range v.Days {
				requireCopied(t, o, v, d)
			}
		}
	})
}

// requireCopied checks that a day is the same after it is written and read.
func requireCopied(t require.TestingT, o oracle, v *View, d *Day) {
	copied, err := decode(d.Date, encode(d, v.Names), v.Names)
	require.NoError(t, err)
	require.Equal(t, d.first, copied.first)
	require.Equal(t, d.status, copied.status)
	require.Equal(t, d.Rows, copied.Rows)
	require.Equal(t, d.extras, copied.extras)
	require.Equal(t, d.statuses, copied.statuses)
	require.Equal(t, d.Jobs(), copied.Jobs())
	require.Equal(t, d.roomOffsets, copied.roomOffsets)
	for m := range d.Machines {
		requireRooms(t, o, v, copied, m)
	}
}

// open opens a pool; cache "" keeps segments in memory only.
func open(t testing.TB, dir, zone, cache string) *Timeline {
	t.Helper()
	return openWith(t, dir, zone, cache, 1<<30)
}

func openWith(t testing.TB, dir, zone, cache string, maxDisk int64) *Timeline {
	t.Helper()
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	z, err := localtime.Parse([]byte(`"` + zone + `"`))
	require.NoError(t, err)
	return New(Options{
		Source: registry.OpenDir(d, z), MaxBytes: 1 << 30, CacheDir: cache, CacheName: registry.CacheName(d, z),
		MaxDiskBytes: maxDisk,
	})
}
