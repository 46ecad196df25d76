package allocation_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
)

var sliceLengths = []int{0, 5, 10, 15, 30, 60}

// The answers equal the oracle's on tiny pools with every oddity.
func TestOddPoolsEqualOracle(t *testing.T) {
	checkOddPools(t, sliceLengths, []string{"UTC", "America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe",
		"Asia/Kathmandu"}, []time.Time{
		time.Date(2025, 11, 1, 23, 10, 0, 0, time.UTC), time.Date(2025, 11, 2, 3, 0, 0, 0, time.UTC),
		time.Date(2025, 3, 9, 5, 0, 0, 0, time.UTC),
		time.Date(2025, 6, 30, 14, 3, 0, 0, time.UTC), time.Date(2025, 4, 5, 12, 30, 0, 0, time.UTC),
		time.Date(2025, 12, 31, 20, 0, 0, 0, time.UTC),
	})
}

// The same if the zone's offset is not a multiple of the slice: two UTC days share slices.
func TestSlicesAcrossDaysEqualOracle(t *testing.T) {
	checkOddPools(t, []int{60}, []string{"Asia/Kolkata", "Asia/Kathmandu"},
		[]time.Time{time.Date(2025, 6, 30, 22, 31, 0, 0, time.UTC), time.Date(2025, 12, 30, 23, 20, 0, 0, time.UTC)})
}

func checkOddPools(t *testing.T, lengths []int, zones []string, starts []time.Time) {
	dirs := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		p := oddPool(rt, rnd, rapid.SampledFrom(zones).Draw(rt, "zone"), rapid.SampledFrom(starts).Draw(rt, "start"))
		n++
		dir := filepath.Join(dirs, fmt.Sprint(n))
		p.write(rt, dir)
		all := p.snapshots()
		minutes := rapid.SampledFrom(lengths).Draw(rt, "sliceMinutes")
		s := openPool(rt, dir, p.zone, minutes)
		defer s.Timeline.Close()
		for range 4 {
			c := newComparison(rt, p, all, s, minutes)
			c.draw(rnd)
			c.run()
		}
		require.NoError(t, os.RemoveAll(dir))
	})
}

// The same on made-up pools, at every slice length.
func TestSamplePoolsEqualOracle(t *testing.T) {
	pools := 50
	if testing.Short() {
		pools = 5
	}
	zones := []string{"UTC", "America/Chicago", "Europe/Berlin", "Asia/Kolkata", "Pacific/Auckland"}
	starts := []time.Time{time.Date(2025, 11, 1, 9, 0, 0, 0, time.UTC), time.Date(2025, 10, 25, 7, 0, 0, 0, time.UTC),
		time.Date(2025, 3, 8, 20, 0, 0, 0, time.UTC), time.Date(2025, 6, 30, 6, 0, 0, 0, time.UTC),
		time.Date(2025, 4, 5, 3, 0, 0, 0, time.UTC)}
	for i := range pools {
		o := samplepool.Default()
		o.Seed, o.Machines, o.GPUs = uint64(i), 6, 12
		o.Timezone, o.Start = zones[i%len(zones)], starts[i/len(zones)%len(starts)]
		o.End = o.Start.Add(36 * time.Hour)
		o.Cadence = []time.Duration{15 * time.Minute, 5 * time.Minute, 10 * time.Minute}[i%3]
		o.MissedSnapshots, o.DoubledSnapshots, o.LateSnapshots, o.RowNoise, o.MissingMachines = 0.05, 0.06, 0.05, 0.02, 0.01
		if o.Cadence < 15*time.Minute {
			o.End = o.Start.Add(20 * time.Hour)
		}
		t.Run(fmt.Sprint(i, o.Timezone), func(t *testing.T) {
			t.Parallel()
			made, err := samplepool.New(o)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, made.WriteSnapshots(t.Context(), dir))
			p := fromSample(t, made)
			all := p.snapshots()
			rnd := rand.New(rand.NewPCG(o.Seed, 2))
			s := open(t, dir, p.zone, 0)
			for _, minutes := range sliceLengths {
				s.env.SliceMinutes = minutes
				c := newComparison(t, p, all, s, minutes)
				c.draw(rnd)
				c.run()
			}
		})
	}
}

// fromSample reads a made-up pool as rows.
func fromSample(t testing.TB, made *samplepool.Pool) *naivePool {
	p := &naivePool{zone: made.Options().Timezone, excluded: map[string]string{}}
	for _, m := range made.Machines() {
		if m.Ownership == pool.CHTCOwned {
			p.chtc = append(p.chtc, m.Name)
		}
		if m.Excluded {
			p.excluded[m.Name] = "excluded"
		}
	}
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	for s, err := range made.Snapshots(t.Context()) {
		require.NoError(t, err)
		for _, r := range s.Rows {
			row := &naiveRow{
				file: s.Month, text: s.Timestamp, name: text(r.Name), gpu: text(r.AssignedGPUs), state: text(r.State),
				device:  text(r.DeviceName),
				machine: text(r.Machine), owner: text(r.RemoteOwner), job: text(r.GlobalJobID),
				project: text(r.PrioritizedProjects),
			}
			if s.Month >= made.Options().Start.AddDate(0, 1, 1-made.Options().Start.Day()).Format("2006-01") {
				row.prevent = text(r.PreventJobsReason)
			}
			if r.MemoryMB != 0 {
				row.memory = &r.MemoryMB
			}
			p.rows = append(p.rows, row)
		}
	}
	return p
}

func ptr[T any](v T) *T { return &v }

// oddPool makes up a tiny pool in which everything odd happens often.
func oddPool(rt *rapid.T, rnd *rand.Rand, zoneName string, start time.Time) *naivePool {
	p := &naivePool{zone: zoneName, excluded: map[string]string{}}
	zone := location(p.zone)
	cadence := time.Duration(rapid.SampledFrom([]int{3, 5, 15, 20}).Draw(rt, "cadence")) * time.Minute
	snapshots := rapid.IntRange(1, 70).Draw(rt, "snapshots")
	machines := []string{"alpha", "beta", "Gamma.x", "delta"}[:1+rnd.IntN(4)]
	if rnd.IntN(3) == 0 {
		p.chtc = []string{machines[rnd.IntN(len(machines))]}
	}
	if rnd.IntN(3) == 0 {
		p.excluded["GAM"] = "old"
	}
	pick := func(words ...string) *string {
		if w := words[rnd.IntN(len(words))]; w != "NULL" {
			return &w
		}
		return nil
	}
	type slot struct {
		row  naiveRow
		here bool
	}
	var slots []*slot
	change := func(s *slot) {
		s.here = rnd.IntN(4) > 0
		s.row.state = pick("Claimed", "Claimed", "Unclaimed", "Drained", "Owner", "Matched", "Preempting", "NULL")
		s.row.project = pick("NULL", "", "  ", "Physics", "Physics", "Bio,Chem", "Chem Bio")
		s.row.owner = pick("NULL", " ", "ann@x", "bob@x", "cyd@x", "ann@x")
		s.row.job = pick("NULL", "ap#1.0#1740000000", "ap#2.0#1740000000", "odd")
		s.row.prevent = pick("NULL", "NULL", "NULL", "", "ECC", "old kernel")
		s.row.device = pick("NULL", "NVIDIA A100", "NVIDIA H200 NVL", "Quadro RTX 6000")
		s.row.memory = [](*int){nil, ptr(0), ptr(40960), ptr(49140), ptr(61440), ptr(81920), ptr(143771)}[rnd.IntN(7)]
	}
	for _, m := range machines {
		for g := range 1 + rnd.IntN(3) {
			for _, name := range []string{"slot1@", "slot1_1@", "BackFill2@", "backfill2_1@"} {
				s := &slot{row: naiveRow{name: ptr(name + m), machine: ptr(m), gpu: ptr(fmt.Sprintf("GPU-%d", g))}}
				change(s)
				slots = append(slots, s)
			}
		}
	}
	at := start
	// the first machine comes late, the last goes early
	late, gone := rnd.IntN(snapshots), []int{rnd.IntN(5), rnd.IntN(3 * snapshots)}[rnd.IntN(2)]
	for number := range snapshots {
		switch rnd.IntN(30) {
		case 0:
			at = at.Add(time.Duration(1+rnd.IntN(7)) * time.Hour)
		case 1:
			at = at.Add(time.Duration(1+rnd.IntN(70)) * time.Second) // a duplicate run, perhaps the same snapshot
		case 2:
			at = at.Add(2 * cadence)
		default:
			at = at.Add(cadence + time.Duration(rnd.IntN(3))*time.Second)
		}
		local := at.In(zone)
		file := local.Format("2006-01")
		if local.Day() == 1 && local.Hour() == 0 && rnd.IntN(2) == 0 {
			file = local.AddDate(0, 0, -1).Format("2006-01") // nearly right
		}
		silent := ""
		if rnd.IntN(8) == 0 {
			silent = machines[rnd.IntN(len(machines))]
		}
		any := false
		add := func(r naiveRow) {
			r.file, r.text = file, local.Format("2006-01-02 15:04:05.000000")
			p.rows = append(p.rows, &r)
			any = true
		}
		for _, s := range slots {
			if rnd.IntN(6) == 0 {
				change(s)
			}
			away := *s.row.machine == machines[0] && number < late || *s.row.machine == machines[len(machines)-1] &&
				number > gone
			if s.here && !away && *s.row.machine != silent {
				add(s.row)
				if rnd.IntN(12) == 0 {
					add(s.row) // a duplicate row
				}
			}
		}
		if rnd.IntN(6) == 0 || !any { // a row without a GPU
			add(naiveRow{name: ptr("slot1@alpha"), machine: pick("alpha", "NULL", ""), gpu: pick("NULL", ""),
				state: ptr("Unclaimed")})
		}
	}
	return p
}

// write makes the month files and lists.
func (p *naivePool) write(t tester, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o700))
	byFile := map[string][]*naiveRow{}
	for _, r := range p.rows {
		byFile[r.file] = append(byFile[r.file], r)
	}
	for file, rows := range byFile {
		db, err := sql.Open("sqlite", filepath.Join(dir, "gpu_state_"+file+".db"))
		require.NoError(t, err)
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = tx.Exec("CREATE TABLE gpu_state(Name TEXT, AssignedGPUs TEXT, State TEXT, GPUs_DeviceName TEXT, " +
			"GPUs_GlobalMemoryMb BIGINT, PrioritizedProjects TEXT, Machine TEXT, RemoteOwner TEXT, GlobalJobId TEXT, " +
			"timestamp DATETIME, PreventJobsReason TEXT)")
		require.NoError(t, err)
		insert, err := tx.Prepare("INSERT INTO gpu_state VALUES (?,?,?,?,?,?,?,?,?,?,?)")
		require.NoError(t, err)
		for _, r := range rows {
			_, err := insert.Exec(r.name, r.gpu, r.state, r.device, r.memory, r.project, r.machine, r.owner, r.job, r.text,
				r.prevent)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		require.NoError(t, db.Close())
	}
	if len(p.chtc) > 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chtc_owned"), []byte(strings.Join(p.chtc, "\n")), 0o600))
	}
	if len(p.excluded) > 0 {
		text := "excluded_hosts:\n"
		for pattern, reason := range p.excluded {
			text += "  " + pattern + ": " + reason + "\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"), []byte(text), 0o600))
	}
}

// comparison is one query to both the product and the oracle.
type comparison struct {
	t        tester
	pool     *naivePool
	all      []naiveSnapshot
	source   source
	minutes  int
	from, to int64
	groupBy  []string
	bucket   string // "" = a table
	zone     string // of buckets
	filter   string
	keepsGPU func(*result) bool // the filter
	keeps    func(*result) bool
	old      bool
}

func newComparison(t tester, p *naivePool, all []naiveSnapshot, s source, minutes int) *comparison {
	everything := func(*result) bool { return true }
	return &comparison{t: t, pool: p, all: all, source: s, minutes: minutes, from: all[0].at, to: all[len(all)-1].at,
		groupBy: []string{"category"}, keepsGPU: everything, keeps: everything, old: true, filter: "{}"}
}

// draw makes up a window, groupings, filter and bucket.
func (c *comparison) draw(rnd *rand.Rand) {
	if rnd.IntN(3) > 0 {
		c.from = c.all[rnd.IntN(len(c.all))].at + int64(rnd.IntN(3)-1)
		c.to = max(c.from, c.all[rnd.IntN(len(c.all))].at+int64(rnd.IntN(5)-2)*400*usSecond)
	} else {
		c.from, c.to = c.from-int64(rnd.IntN(3))*usHour, c.to+int64(rnd.IntN(3))*usHour
	}
	groupings := []string{"category", "slots", "device", "memory", "machine", "ownership", "project"}
	rnd.Shuffle(len(groupings), func(i, j int) { groupings[i], groupings[j] = groupings[j], groupings[i] })
	if rnd.IntN(2) == 0 {
		c.groupBy = groupings[:rnd.IntN(4)]
	}
	c.old = rnd.IntN(3) > 0
	switch rnd.IntN(6) {
	case 0:
		c.filter, c.keepsGPU = `{"devices": ["NVIDIA A100", "/H2.0/"]}`,
			func(x *result) bool { return x.device == "NVIDIA A100" || strings.Contains(x.device, "H200") }
	case 1:
		c.filter, c.keepsGPU = `{"machines": ["/a$/"], "ownerships": ["Researcher Owned", "CHTC Owned"]}`,
			func(x *result) bool { return strings.HasSuffix(x.machine, "a") && x.ownership != "Open Capacity" }
	case 2:
		c.filter, c.keeps = `{"categories": ["Shared", "Backfill (CHTC Owned)"], "projects": ["Chem", ""]}`,
			func(x *result) bool {
				return (x.category == "Open Capacity" || x.category == "Backfill (CHTC Owned)") &&
					slices.Contains(strings.Split(x.project, ","), "Chem")
			}
	case 3:
		c.filter, c.keeps = `{"slots": ["Backfill"]}`, func(x *result) bool { return x.slots == "Backfill" }
	}
	c.zone = []string{c.pool.zone, "UTC", "America/Chicago"}[rnd.IntN(3)]
	var buckets []string
	for i, minutes := range []int{5, 10, 15, 30, 60, 180, 360, 720, 1440, 10080} {
		if c.minutes == 0 || minutes%c.minutes == 0 {
			buckets = append(buckets, []string{"5m", "10m", "15m", "30m", "1h", "3h", "6h", "12h", "1d", "1w"}[i])
		}
	}
	// its clock changes by half an hour: buckets there have no beginning of their own
	if halfHour := strings.Contains("Australia/Lord_Howe", c.pool.zone); rnd.IntN(2) == 0 && !halfHour {
		c.bucket = append(buckets, "window")[rnd.IntN(len(buckets)+1)]
	}
}

func (c *comparison) query(rest string) string {
	groupBy := "[]"
	if len(c.groupBy) > 0 {
		groupBy = `["` + strings.Join(c.groupBy, `", "`) + `"]`
	}
	view := "summary"
	if c.bucket != "" {
		view, rest = "timeseries", fmt.Sprintf(`"bucket": %q, "timezone": %q, `, c.bucket, c.zone)+rest
	}
	return fmt.Sprintf(`{"view": %q, "groupBy": %s, "filter": %s, "includeOldDevices": %v, "limit": 50000, %s}`, view,
		groupBy, c.filter, c.old, rest)
}

func (c *comparison) run() {
	c.t.Helper()
	list, slicesThere := c.pool.results(c.all, c.minutes, c.from, c.to, c.old)
	n := map[string]int{} // N of each bucket
	bucket := c.bucket
	if bucket == "" {
		bucket = "window"
	}
	zone := location(c.zone)
	for _, begin := range slicesThere {
		n[bucketOf(begin, bucket, zone)]++
	}
	groups := c.groupBy
	if !slices.Contains(groups, "category") && !slices.Contains(groups, "slots") {
		groups = append(slices.Clone(groups), "slots")
	}
	sums := map[string]map[string]map[string]float64{} // group, bucket, class
	users := map[string]map[string]float64{}           // group|user, bucket
	userGroups := slices.DeleteFunc(slices.Clone(c.groupBy),
		func(g string) bool { return g == "slots" || g == "memory" || g == "ownership" })
	for _, x := range list {
		if !c.keepsGPU(&x) || !c.keeps(&x) {
			continue
		}
		b := bucketOf(x.begin, bucket, zone)
		key := c.key(&x, groups)
		if sums[key] == nil {
			sums[key] = map[string]map[string]float64{}
		}
		if sums[key][b] == nil {
			sums[key][b] = map[string]float64{}
		}
		sums[key][b][x.state]++
		if x.free {
			sums[key][b]["free"]++
		}
		if x.prevented {
			sums[key][b]["prevented"]++
		}
		for _, u := range x.users {
			key := c.key(&x, userGroups, u)
			if users[key] == nil {
				users[key] = map[string]float64{}
			}
			users[key][b] += 1 / float64(len(x.users))
		}
	}
	w := pool.Window{From: c.from, To: c.to}
	want := map[string]any{}
	for key, byBucket := range sums {
		for b, slicesOf := range n {
			s := byBucket[b]
			available := s["claimed"] + s["unclaimed"]
			value := map[string]any{"allocated": s["claimed"] / float64(slicesOf), "available": available / float64(slicesOf)}
			for _, m := range []string{"unclaimed", "drained", "free", "prevented"} {
				value[m] = s[m] / float64(slicesOf)
			}
			if available > 0 {
				value["allocatedPercent"] = 100 * s["claimed"] / available
			} else if c.bucket == "" {
				value["allocatedPercent"] = nil
			}
			for m, v := range value {
				want[key+"|"+b+"|"+m] = v
			}
		}
	}
	names := `"` + strings.Join(metrics, `", "`) + `"`
	c.compare(want, c.ask(w, `"queryType": "allocation", "totals": false, "metrics": [`+names+`]`, groups, metrics), list)

	c.groupBy = userGroups
	hours := map[string]any{}
	coveredIn := c.coveredIn(bucket, zone)
	for key, byBucket := range users {
		for b, slicesOf := range n {
			hours[key+"|"+b+"|gpuHours"] = byBucket[b] / float64(slicesOf) * coveredIn[b]
		}
	}
	if c.bucket != "" {
		c.groupBy = append(slices.Clone(userGroups), "user")
	}
	c.compare(hours, c.ask(w, `"queryType": "userHours"`, append(slices.Clone(userGroups), "user"), []string{"gpuHours"}),
		list)
}

// coveredIn returns D of each bucket. Buckets change at full five minutes only.
func (c *comparison) coveredIn(bucket string, zone *time.Location) map[string]float64 {
	const step = 300 * usSecond
	hours := map[string]float64{}
	stretches := c.pool.coveredStretches(c.all, c.minutes)
	begin := c.from
	for t := c.from; t <= c.to; {
		next := t + step - t%step
		if name := bucketOf(t, bucket, zone); next > c.to || bucketOf(next, bucket, zone) != name {
			hours[name] += covered(stretches, begin, min(next, c.to))
			begin = next
		}
		t = next
	}
	return hours
}

func (c *comparison) key(x *result, groups []string, further ...string) string {
	parts := []string{}
	for _, g := range groups {
		parts = append(parts, x.by(g))
	}
	parts = append(parts, further...)
	return strings.Join(parts, "|")
}

// ask returns the product's figures by group, bucket and metric.
func (c *comparison) ask(w pool.Window, rest string, groups, metrics []string) map[string]any {
	c.t.Helper()
	got := map[string]any{}
	put := func(key string, v any) {
		if _, twice := got[key]; twice {
			c.t.Fatalf("%s: twice", key)
		}
		got[key] = v
	}
	frames := c.source.ask(c.t, w, c.query(rest))
	if c.bucket == "" {
		for _, r := range golden.Rows(frames) {
			if r["rowType"] == "group" || r["rowType"] == "total" {
				continue
			}
			parts := []string{}
			for _, g := range groups {
				parts = append(parts, r[g].(string))
			}
			for _, m := range metrics {
				put(strings.Join(parts, "|")+"||"+m, r[m])
			}
		}
		return got
	}
	for _, f := range frames {
		if len(f.Fields) == 0 {
			continue
		}
		parts := []string{}
		for _, g := range groups {
			parts = append(parts, f.Fields[1].Labels[g])
		}
		for i := range f.Fields[0].Len() {
			at := f.Fields[0].At(i).(time.Time)
			put(strings.Join(parts, "|")+"|"+bucketOf(at.UnixMicro(), c.bucket, location(c.zone))+"|"+f.Fields[1].Name,
				f.Fields[1].At(i))
		}
	}
	return got
}

func (c *comparison) compare(want, got map[string]any, list []result) {
	c.t.Helper()
	for k, v := range want {
		g, there := got[k]
		if !there || !golden.Same(v, g) {
			c.fail(k, v, g)
		}
	}
	for k, v := range got {
		if _, there := want[k]; !there {
			c.fail(k, "nothing", v)
		}
	}
}

func (c *comparison) fail(key string, want, got any) {
	c.t.Helper()
	c.t.Fatalf("%s: want %v, got %v\nwindow %v – %v, L = %d, zone %s, bucket %q in %s, group by %v, filter %s", key, want,
		got,
		pool.Time(c.from), pool.Time(c.to), c.minutes, c.pool.zone, c.bucket, c.zone, c.groupBy, c.filter)
}
