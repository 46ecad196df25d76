package oracle

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/naive"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// How much the random questions ask: `go tool mage reliability` asks more.
var (
	questionSeed = flag.Uint64("questions.seed", 1, "the seed of the first pool that is asked about")
	questionsOf  = flag.Int("questions", 30, "random questions of each pool")
	poolsOf      = flag.Int("questions.pools", 4, "pools that are asked about")
)

// places are zones of half hours and of repeated or missing hours, with a time to begin. The first ones are asked about
// in each test.
var places = []struct {
	zone  string
	start time.Time
}{
	{"Australia/Lord_Howe", time.Date(2026, 4, 4, 0, 0, 0, 0, time.UTC)},  // half an hour occurs twice on 5 April
	{"Africa/Casablanca", time.Date(2025, 2, 22, 5, 0, 0, 0, time.UTC)},   // repeated on 23 February
	{"Asia/Kathmandu", time.Date(2025, 6, 30, 3, 0, 0, 0, time.UTC)},      // quarters of an hour, and a month's end
	{"Antarctica/Troll", time.Date(2025, 10, 25, 3, 0, 0, 0, time.UTC)},   // two hours are repeated on 26 October
	{"America/Chicago", time.Date(2025, 11, 1, 4, 0, 0, 0, time.UTC)},     // an hour occurs twice on 2 November
	{"Asia/Kolkata", time.Date(2025, 12, 30, 19, 0, 0, 0, time.UTC)},      // half hours, and a month's end
	{"America/St_Johns", time.Date(2025, 11, 1, 2, 0, 0, 0, time.UTC)},    // both
	{"UTC", time.Date(2025, 9, 29, 7, 0, 0, 0, time.UTC)},                 //
	{"Europe/Berlin", time.Date(2025, 10, 25, 9, 0, 0, 0, time.UTC)},      // repeated on 26 October
	{"America/Chicago", time.Date(2026, 3, 7, 9, 0, 0, 0, time.UTC)},      // an hour is missing on 8 March
	{"Australia/Lord_Howe", time.Date(2025, 10, 4, 1, 0, 0, 0, time.UTC)}, // half an hour is missing on 5 October
	{"Pacific/Auckland", time.Date(2026, 4, 3, 23, 0, 0, 0, time.UTC)},    // repeated on 5 April
}

// asker draws questions about a pool.
type asker struct {
	*rand.Rand
	*records
	queues *queues
	zone   *time.Location
	values map[string][]string // of GPUs and users, by filter
}

// Random questions of all kinds about random pools with gaps, clock changes, queue files and projects that change: the
// product answers as the naive loops do.
func TestRandomQuestions(t *testing.T) {
	for n := range *poolsOf {
		seed := *questionSeed + uint64(n)
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			o, place := samplePool(seed), places[(seed-1)%uint64(len(places))]
			random := rand.New(rand.NewPCG(seed, 3))
			o.Timezone, o.Start, o.Machines = place.zone, place.start, 5+random.IntN(3)
			o.End = o.Start.Add(40*time.Hour + time.Duration(random.IntN(600))*time.Minute)
			o.Polls = time.Duration([]int{10, 30, 30, 45}[random.IntN(4)]) * time.Minute
			o.Prevented, o.MissedSnapshots, o.DoubledSnapshots, o.Outages = 10, 0.03, 0.02, 10
			made, err := samplepool.New(o)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, made.WriteSnapshots(context.Background(), dir))
			require.NoError(t, made.WriteAds(context.Background(), dir))
			require.NoError(t, made.WriteQueues(context.Background(), dir))
			changeProjects(t, dir, random)
			edit(t, dir, hide(random)...)
			renameSlots(t, dir, random)
			changeQueues(t, dir, random)
			a := &asker{Rand: random, records: readRecords(t, dir, o.Timezone), queues: readQueues(t, dir)}
			a.zone, err = time.LoadLocation(o.Timezone)
			require.NoError(t, err)
			a.findValues()
			asked := 0
			for i := 0; asked < *questionsOf; i++ {
				jobs := []string{"both", "none", "epochs", "history"}[i%4]
				minutes := []int{15, 0, 60, 5, 30, 15}[random.IntN(6)]
				p := openSliced(t, a.records, dir, o.Timezone, minutes, jobs, jobFiles[jobs]...)
				for range 3 {
					from, to := a.window()
					for k, d := range a.askAbout(t, p, minutes, from, to) {
						if k < 6 {
							t.Errorf("%s\n(seed %d, %s, slices of %d min, %s to %s, %s, every %v, polls every %v)", d, seed, jobs,
								minutes, stamp(from), stamp(to), o.Timezone, o.Cadence, o.Polls)
						}
					}
				}
				asked += p.asked
				p.source.Dispose()
			}
			t.Logf("seed %d: %d questions, %d snapshots, %d polls, %d jobs", seed, asked, len(a.snapshots), len(a.queues.Polls),
				len(a.queues.jobs))
		})
	}
}

// The files of a pool.
const snapshotFiles, queueFiles = "gpu_state_????-??.db", "job_pressure_????-??.db"

// eachFile opens the files of a directory whose names match a pattern.
func eachFile(t testing.TB, dir, pattern string, do func(db *sql.DB)) {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	for _, f := range files {
		db, err := sql.Open("sqlite", f)
		require.NoError(t, err)
		do(db)
		require.NoError(t, db.Close())
	}
}

// column is what a query finds.
func column(t testing.TB, db *sql.DB, query string) (list []string) {
	rows, err := db.Query(query)
	require.NoError(t, err)
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		list = append(list, text)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return list
}

// changeProjects gives machines other projects for a while.
func changeProjects(t *testing.T, dir string, random *rand.Rand) {
	eachFile(t, dir, snapshotFiles, func(db *sql.DB) {
		times := column(t, db, "SELECT DISTINCT CAST(timestamp AS TEXT) FROM gpu_state ORDER BY 1")
		for _, machine := range column(t, db, "SELECT DISTINCT Machine FROM gpu_state WHERE Machine <> '' ORDER BY 1") {
			for range random.IntN(4) {
				from := random.IntN(len(times))
				_, err := db.Exec("UPDATE gpu_state SET PrioritizedProjects = ? WHERE Machine = ? AND CAST(timestamp AS TEXT) "+
					"BETWEEN ? AND ?", []any{"Bio", "Bio,Chem", "", nil, "Chem Bio"}[random.IntN(5)], machine, times[from],
					times[min(len(times)-1, from+random.IntN(30))])
				require.NoError(t, err)
			}
		}
	})
}

// hide returns statements that take away rows of some GPUs and of a machine before or after a time: they come, or go.
func hide(random *rand.Rand) (statements []string) {
	for _, column := range []string{"AssignedGPUs", "AssignedGPUs", "AssignedGPUs", "Machine"} {
		statements = append(statements, fmt.Sprintf("DELETE FROM gpu_state WHERE %s = (SELECT DISTINCT %[1]s FROM gpu_state "+
			"WHERE %[1]s <> '' ORDER BY 1 LIMIT 1 OFFSET %d) AND rowid %s (SELECT max(rowid) * %d / 100 FROM gpu_state)", column,
			random.IntN(5), []string{"<", ">"}[random.IntN(2)], 20+random.IntN(60)))
	}
	return statements
}

// renameSlots gives the backfill slots of some machines the names that HTCondor gives them where the site sets no
// prefix: only BackfillSlot says what they are.
func renameSlots(t *testing.T, dir string, random *rand.Rand) {
	renamed := map[string]bool{}
	eachFile(t, dir, snapshotFiles, func(db *sql.DB) {
		_, err := db.Exec("ALTER TABLE gpu_state ADD COLUMN BackfillSlot INTEGER")
		require.NoError(t, err)
		for _, machine := range column(t, db, "SELECT DISTINCT coalesce(Machine, '') FROM gpu_state ORDER BY 1") {
			if _, known := renamed[machine]; !known {
				renamed[machine] = random.IntN(3) == 0
			}
		}
		for machine, is := range renamed {
			if !is {
				continue
			}
			_, err := db.Exec("UPDATE gpu_state SET BackfillSlot = (Name LIKE 'backfill%'), "+
				"Name = replace(Name, 'backfill', 'slot9') WHERE Machine = ?", machine)
			require.NoError(t, err)
		}
	})
	for _, f := range slices.Concat(slices.Collect(maps.Values(jobFiles))...) {
		file := filepath.Join(dir, f)
		stored, err := os.ReadFile(file)
		require.NoError(t, err)
		var lines []string
		for line := range strings.Lines(string(stored)) {
			var ad map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &ad))
			if name, _ := ad["StartdName"].(string); renamed[name] {
				line = strings.ReplaceAll(line, "\"backfill", "\"slot9")
			}
			lines = append(lines, line)
		}
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600))
	}
}

// changeQueues adds running rows, of known jobs and of others, takes polls away, and lets jobs ask for parts of GPUs.
func changeQueues(t *testing.T, dir string, random *rand.Rand) {
	eachFile(t, dir, queueFiles, func(db *sql.DB) {
		_, err := db.Exec("ALTER TABLE job_pressure ADD COLUMN JobState TEXT")
		require.NoError(t, err)
	})
	q := readQueues(t, dir).Rows
	polls := naive.New(q).Polls
	gap := len(polls)/3 + random.IntN(len(polls)/3)
	begin, end := polls[gap], polls[gap+3+random.IntN(8)]
	var kept []naive.Row
	for _, r := range q {
		switch {
		case r.First < end && r.Last > begin: // not one that a row spans
			if r.First <= begin {
				before := r
				before.Last = begin
				kept = append(kept, before)
			}
			if r.Last >= end {
				r.First = end
				kept = append(kept, r)
			}
		default:
			kept = append(kept, r)
		}
	}
	n := len(kept)
	for range n / 20 {
		r := kept[random.IntN(n)]
		after := slices.Index(polls, r.Last) + 1
		if random.IntN(3) == 0 {
			r.Job = fmt.Sprintf("%s#%d.0#%d", strings.Split(r.Job, "#")[0], 9_000_000+random.IntN(1000), r.Queued/second)
		}
		until := after + random.IntN(5)
		if after < 1 || until >= len(polls) || polls[after] < end && polls[until] > begin {
			continue
		}
		r.First, r.Last, r.Running = polls[after], polls[until], true
		kept = append(kept, r)
	}
	writeQueues(t, dir, kept)
	eachFile(t, dir, queueFiles, func(db *sql.DB) {
		_, err := db.Exec("UPDATE job_pressure SET RequestGPUs = RequestGPUs * 0.75 " +
			"WHERE CAST(substr(GlobalJobId, instr(GlobalJobId, '#') + 1) AS INTEGER) % 3 = 0")
		require.NoError(t, err)
	})
}

// writeQueues writes rows in the place of those of the queue files, with what their jobs ask for.
func writeQueues(t *testing.T, dir string, rows []naive.Row) {
	jobs := readQueues(t, dir).jobs
	slices.SortStableFunc(rows, func(a, b naive.Row) int { return cmp.Compare(a.First, b.First) })
	first := true
	eachFile(t, dir, queueFiles, func(db *sql.DB) {
		_, err := db.Exec("DELETE FROM job_pressure")
		require.NoError(t, err)
		if !first {
			return // all rows in one file: a month's end is the golden cases'
		}
		first = false
		tx, err := db.Begin()
		require.NoError(t, err)
		for _, r := range rows {
			a := jobs[r.Job]
			if a.gpus == 0 {
				a = asked{owner: "stranger", schedd: strings.Split(r.Job, "#")[0], gpus: 1}
			}
			state := map[bool]string{true: "running", false: "idle"}[r.Running]
			_, err := tx.Exec("INSERT INTO job_pressure VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?)", r.Job, a.schedd,
				a.owner, a.gpus, a.cpus, a.memory, a.gpuMemory, r.Queued/second, a.project, r.First/second, r.Last/second, state)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
	})
}

// findValues gathers what filters can name.
func (a *asker) findValues() {
	found := map[string]map[string]bool{}
	add := func(field, value string) {
		if found[field] == nil {
			found[field] = map[string]bool{}
		}
		if value != "" {
			found[field][value] = true
		}
	}
	for _, s := range a.snapshots {
		for _, w := range s.rows {
			add("machines", w.machine)
			add("devices", w.device)
			if w.state == "Claimed" {
				add("users", w.owner)
			}
			for _, p := range strings.Split(projectsOf(w.projects), ",") {
				add("projects", p)
			}
		}
	}
	for _, j := range a.queues.jobs {
		add("owners", j.owner)
		for _, p := range strings.Split(j.project, ",") {
			add("jobProjects", p)
		}
	}
	a.values = map[string][]string{}
	for field, of := range found {
		for value := range of {
			a.values[field] = append(a.values[field], value)
		}
		slices.Sort(a.values[field])
	}
}

func (a *asker) one(list []string) string { return list[a.IntN(len(list))] }

// some draws a few members, in an order of their own.
func (a *asker) some(list []string, most int) []string {
	list = slices.Clone(list)
	a.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:a.IntN(min(most, len(list))+1)]
}

// window draws a window: of one instant, one that ends between two polls, about a clock change, or any other.
func (a *asker) window() (from, to int64) {
	at := func() int64 { return a.snapshots[a.IntN(len(a.snapshots))].at }
	newest := a.snapshots[len(a.snapshots)-1].at
	polls := a.queues.Polls
	poll := a.IntN(len(polls) - 1)
	length := []int64{20 * minute, hour, 3*hour + 7*minute, 7 * hour, day}[a.IntN(5)]
	switch a.IntN(9) {
	case 0:
		return newest, newest
	case 1:
		from = at()
		return from, from
	case 2:
		from = at() + 1 + a.Int64N(10*minute)
		return from, from
	case 3:
		from = []int64{polls[len(polls)-1], polls[poll]}[a.IntN(2)]
		return from, from
	case 4: // ends between two polls
		to = polls[poll] + a.Int64N(polls[poll+1]-polls[poll])
		return to - length, to
	case 5: // about a clock change, or about midnight
		change := a.snapshots[0].at + 20*hour
		for i := 1; i < len(a.snapshots); i++ {
			_, before := time.UnixMicro(a.snapshots[i-1].at).In(a.zone).Zone()
			if _, after := time.UnixMicro(a.snapshots[i].at).In(a.zone).Zone(); after != before {
				change = a.snapshots[i].at
			}
		}
		return change - a.Int64N(4*hour), change + a.Int64N(4*hour)
	case 6:
		return a.snapshots[0].at - hour, newest + a.Int64N(2)*hour
	case 7:
		from = at()
		return from, from + length
	}
	from = at() + a.Int64N(hour)
	return from, from + length
}

// choice is a filter of GPUs and of slots, drawn.
type choice struct {
	json string
	gpu  func(machine string, g gpu) bool
	slot func(category, slots, project string) bool
}

func (a *asker) choose(projects bool) choice {
	c := choice{gpu: func(string, gpu) bool { return true }, slot: func(_, _, _ string) bool { return true }}
	text := func(field string, values ...string) {
		list, err := json.Marshal(values)
		if err != nil {
			panic(err)
		}
		c.json = fmt.Sprintf(`{%q: %s}`, field, list)
	}
	n := 9
	if projects {
		n = 12
	}
	switch a.IntN(n) {
	case 0:
		device := a.one(a.values["devices"])
		text("devices", device)
		c.gpu = func(_ string, g gpu) bool { return g.device == device }
	case 1:
		machine := a.one(a.values["machines"])
		text("machines", "!"+machine)
		c.gpu = func(m string, _ gpu) bool { return m != machine }
	case 2:
		text("ownerships", "Researcher Owned", "CHTC Owned")
		c.gpu = func(_ string, g gpu) bool { return g.ownership != "Open Capacity" }
	case 3:
		text("memories", "80GB", "48GB")
		c.gpu = func(_ string, g gpu) bool { return slices.Contains([]string{"80GB", "48GB"}, memoryClass(g.memory)) }
	case 4:
		machine := a.one(a.values["machines"])
		text("machines", "/^"+machine[:2]+"/", machine)
		c.gpu = func(m string, _ gpu) bool { return strings.HasPrefix(m, machine[:2]) }
	case 9, 10:
		project := a.one(a.values["projects"])
		text("projects", project)
		c.slot = func(_, _, p string) bool { return slices.Contains(strings.Split(p, ","), project) }
	case 11:
		text("categories", "Shared", "Backfill-ResearcherOwned")
		c.slot = func(category, _, _ string) bool {
			return category == "Open Capacity" || category == "Backfill (Researcher Owned)"
		}
	}
	return c
}

// bucket draws a bucket that holds whole slices, and a zone.
func (a *asker) bucket(minutes, shortest int, from, to int64) (name string, zone *time.Location, c calendar) {
	var possible []string
	for i, n := range []int{5, 10, 15, 30, 60, 180, 360, 720, 1440, 10080} {
		if (minutes == 0 || n%minutes == 0) && n >= shortest && (to-from)/(int64(n)*minute) < 400 {
			possible = append(possible, []string{"5m", "10m", "15m", "30m", "1h", "3h", "6h", "12h", "1d", "1w"}[i])
		}
	}
	zones := []string{a.zone.String(), a.zone.String(), "UTC", "Asia/Kathmandu", "America/Chicago", "Australia/Lord_Howe",
		"Africa/Casablanca", "Antarctica/Troll"}
	name = a.one(possible)
	zone, err := time.LoadLocation(a.one(zones))
	if err != nil {
		panic(err)
	}
	return name, zone, bucketsOf(name, zone, from, to)
}

// asking is what is compared in a window.
type comparison struct {
	*asker
	*asking
	view        *view
	waits       []*waiting
	from, to    int64
	questions   []question
	differences []string
}

func (c *comparison) differ(format string, values ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, values...))
}

// askAbout asks about a window and says where the answers differ.
func (a *asker) askAbout(t *testing.T, p *product, minutes int, from, to int64) []string {
	c := &comparison{asker: a, asking: &asking{a.records, a.zone, minutes}, from: from, to: to,
		view: newView(a.records, p.ads, p.jobs != "none", from, to)}
	c.waits = a.queues.waits(c.view)
	c.allocation()
	c.allocation()
	c.userHours()
	c.utilization()
	c.demand()
	c.availability()
	c.backfill()
	c.jobs()
	c.changes()
	c.current()
	c.states()
	c.machines()
	c.health()
	p.ask(t, from, to, c.questions)
	p.ask(t, to+1, 2*to+1-from, c.before())
	if a.IntN(4) == 0 {
		bucket, zone, _ := a.bucket(minutes, 5, from, to)
		f := a.choose(false)
		c.view.manner = manner{asking: c.asking, drawn: zone, buckets: []string{bucket}, filter: f.json}
		if f.json != "" {
			c.view.keeps = func(k string, g gpu) bool {
				machine, _, _ := strings.Cut(k, "|")
				return f.gpu(machine, g)
			}
		}
		for _, d := range compareIn(t, p, c.view) {
			c.differ("%s %s %s: %s", f.json, bucket, zone, d)
		}
	}
	return c.differences
}

// text is a query with its filter and groupings.
func text(kind, view string, by []string, filter, more string) string {
	groupBy, err := json.Marshal(append([]string{}, by...))
	if err != nil {
		panic(err)
	}
	if filter != "" {
		more += `, "filter": ` + filter
	}
	return fmt.Sprintf(`{"queryType": %q, "view": %q, "groupBy": %s, "limit": 50000%s}`, kind, view, groupBy, more)
}

// rows asks for a table and compares it with figures.
func (c *comparison) rows(query string, by, metrics []string, want map[cell]float64) {
	c.questions = append(c.questions, question{query, func(frames data.Frames) {
		rows := golden.Rows(frames)
		seen := map[string]bool{}
		for _, r := range rows {
			if strings.Contains(query, `"userHours"`) && r["user"] == "" { // a group's header
				continue
			}
			g := group(by, func(name string) string { s, _ := r[name].(string); return s })
			if seen[g] {
				c.differ("%s: %q is there twice", query, g)
			}
			seen[g] = true
			for _, m := range metrics {
				got, ok := r[m].(float64)
				w, known := want[cell{g, m, 0}]
				switch {
				case known && !nan(w) && !(ok && golden.Same(w, got)), (!known || nan(w)) && ok && got != 0:
					c.differ("%s: %s of %q is %v, the product says %v", query, m, g, w, r[m])
				}
			}
		}
		for k, w := range want {
			if !seen[k.group] && !nan(w) && w != 0 {
				c.differ("%s: no row %q with %s = %v", query, k.group, k.metric, w)
			}
		}
	}})
}

// series asks for series and compares them with figures by bucket.
func (c *comparison) series(query string, by []string, single string, want map[cell]float64) {
	c.questions = append(c.questions, question{query, func(frames data.Frames) {
		names := by
		if single == "" {
			names = append(slices.Clone(by), "metric")
		}
		for name, points := range golden.Series(frames, names...) {
			g, metric := name, single
			if single == "" {
				parts := strings.Split(name, "|")
				g, metric = strings.Join(parts[:len(parts)-1], "|"), parts[len(parts)-1]
			}
			for _, p := range points {
				k := cell{g, metric, p.Time.UnixMicro()}
				w, known := want[k]
				if known && !nan(w) && !golden.Same(w, p.Value) || (!known || nan(w)) && !nan(p.Value) && p.Value != 0 {
					c.differ("%s: %s of %q at %s is %v, the product says %v", query, metric, g, stamp(k.at), w, p.Value)
				}
				delete(want, k)
			}
		}
		for k, w := range want {
			if !nan(w) && w != 0 {
				c.differ("%s: no point of %q, %s, at %s: %v", query, k.group, k.metric, stamp(k.at), w)
			}
		}
	}})
}

// whole are the figures of the only bucket, as those of a table.
func whole(points map[cell]float64) map[cell]float64 {
	all := map[cell]float64{}
	for k, w := range points {
		all[cell{k.group, k.metric, 0}] = w
	}
	return all
}

var allocationMetrics = []string{"allocatedPercent", "allocated", "available", "free", "unclaimed", "drained",
	"prevented"}

func quoted(list []string) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (c *comparison) allocation() {
	by := c.some([]string{"category", "slots", "device", "memory", "machine", "ownership", "project"}, 3)
	groups := by
	if !slices.Contains(by, "category") && !slices.Contains(by, "slots") {
		groups = append(slices.Clone(by), "slots")
	}
	f := c.choose(true)
	keeps := func(x *slot) bool { return f.gpu(x.machine, x.gpu) && f.slot(x.category, x.slots, x.project) }
	metrics := `, "metrics": ` + quoted(allocationMetrics)
	if c.IntN(2) == 0 {
		points := c.allocationFigures(groups, keeps, calendar{c.from, c.to + 1}, c.from, c.to)
		c.rows(text("allocation", "summary", by, f.json, metrics+`, "totals": false`), groups, allocationMetrics,
			whole(points))
		return
	}
	bucket, zone, of := c.bucket(c.minutes, 5, c.firstSlice(), c.to)
	c.series(text("allocation", "timeseries", by, f.json, fmt.Sprintf(`%s, "bucket": %q, "timezone": %q`, metrics, bucket,
		zone)), groups, "", c.allocationFigures(groups, keeps, of, c.from, c.to))
}

// firstSlice is where the window's first slice begins, or the window.
func (c *comparison) firstSlice() int64 {
	first := c.from
	_, begins := c.slots(c.from, c.to)
	for _, begin := range begins {
		first = min(first, begin)
	}
	return first
}

func (c *comparison) userHours() {
	by := append(c.some([]string{"category", "device", "machine", "project"}, 2), "user")
	f := c.choose(true)
	keeps := func(x *slot) bool { return f.gpu(x.machine, x.gpu) && f.slot(x.category, x.slots, x.project) }
	user := c.leaveOut(&f, c.values["users"])
	if c.IntN(2) == 0 {
		points := c.userFigures(by, keeps, user, calendar{c.from, c.to + 1}, c.from, c.to)
		query := text("userHours", "summary", by[:len(by)-1], f.json, `, "totals": false`)
		c.rows(query, by, []string{"gpuHours"}, whole(points))
		return
	}
	bucket, zone, of := c.bucket(c.minutes, 5, c.firstSlice(), c.to)
	c.series(text("userHours", "timeseries", by, f.json, fmt.Sprintf(`, "bucket": %q, "timezone": %q`, bucket, zone)), by,
		"gpuHours", c.userFigures(by, keeps, user, of, c.from, c.to))
}

// availability compares GPUs on average by a filter of projects: a GPU counts at the snapshots at which the row that
// gives its state has the project, or the snapshot before where its state is taken from there.
func (c *comparison) availability() {
	project := c.one(c.values["projects"])
	metrics := []string{"available", "used", "taken"}
	n, counts := 0.0, map[cell]float64{}
	for _, s := range c.view.snaps {
		if c.from <= s.at && s.at <= c.to {
			n++
		}
	}
	for _, k := range c.view.poolGPUs() {
		has := false
		for i, x := range c.view.states(k) {
			s := c.view.snaps[i]
			best := row{}
			rank := func(w row) int {
				switch {
				case !w.backfill && w.state == "Claimed":
					return 4
				case w.backfill:
					return map[string]int{"Claimed": 3, "Unclaimed": 2}[w.state]
				}
				return -1
			}
			found := false
			for _, w := range s.of[k] {
				if r := rank(w); r >= 0 && (!found || r >= rank(best)) {
					best, found = w, true
				}
			}
			if found {
				has = slices.Contains(strings.Split(projectsOf(best.projects), ","), project)
			}
			if c.from <= s.at && s.at <= c.to && !x.out && has && slices.Contains(metrics, x.state) {
				counts[cell{"", x.state, 0}] += 1 / n
			}
		}
	}
	c.rows(text("backfillAvailability", "summary", nil, fmt.Sprintf(`{"projects": [%q]}`, project),
		`, "totals": false, "metrics": `+quoted(metrics)), nil, metrics, counts)
}

var usageMetrics = []string{"heldGpuHours", "measuredPercent", "utilizationPercent", "busyGpuHours", "idleGpuHours",
	"idlePercent", "runs", "idleRuns", "idleNow"}

func (c *comparison) utilization() {
	f := c.choose(true)
	user := c.leaveOut(&f, c.values["users"])
	list := slices.DeleteFunc(c.view.usedRuns(c.asking), func(u *usedRun) bool {
		slots := map[bool]string{true: "Backfill", false: "Real"}[u.backfill]
		return !f.gpu(u.machine, u.gpu) || !f.slot(u.category, slots, u.project) || !user(u.owner)
	})
	by := c.some([]string{"category", "device", "memory", "machine", "ownership", "project", "user"}, 2)
	c.rows(text("utilization", "summary", by, f.json, `, "totals": false, "metrics": `+quoted(usageMetrics)), by,
		usageMetrics, usageFigures(list, by, c.from, c.to))
	bucket, zone, of := c.bucket(c.minutes, 60, c.from, c.to)
	c.series(text("utilization", "timeseries", by, f.json, fmt.Sprintf(
		`, "bucket": %q, "timezone": %q, "metrics": ["utilizationPercent", "busy", "idle"]`, bucket, zone)), by, "",
		c.usageSeries(list, by, of, c.from, c.to))
	var want []string
	for _, u := range list {
		a := u.within(c.from, c.to)
		line := fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|%s|%s", u.machine, strings.Join(u.ids(), ","), u.gpu.device, u.category,
			u.owner, u.job, stamp(u.started), stamp(u.until), number(a.percent(a.busy)))
		if since := u.idleSince(); since != 0 {
			line += "|" + stamp(since)
		}
		want = append(want, line)
	}
	query := text("utilization", "runs", nil, f.json, "")
	c.lines(query, want, func(r map[string]any) string {
		line := fmt.Sprintf("%s|%s|%v|%v|%v|%v|%s|%s|%s", r["machine"], sortedIDs(r["gpuIds"]), r["device"], r["category"],
			r["user"], r["job"], at(r["start"]), at(r["end"]), number(r["utilizationPercent"]))
		if r["idleSince"] != nil {
			line += "|" + at(r["idleSince"])
		}
		return line
	})
}

// lines asks for a list and compares its rows as texts.
func (c *comparison) lines(query string, want []string, line func(map[string]any) string) {
	c.questions = append(c.questions, question{query, func(frames data.Frames) {
		rows := golden.Rows(frames)
		var got []string
		for _, r := range rows {
			if l := line(r); l != "" { // otherwise no loop of this oracle reads what it is about
				got = append(got, l)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		for _, l := range without(want, got) {
			c.differ("%s: missing    %s", query, l)
		}
		for _, l := range without(got, want) {
			c.differ("%s: unexpected %s", query, l)
		}
	}})
}

func at(x any) string {
	if x == nil {
		return ""
	}
	return x.(time.Time).UTC().Format(iso)
}

// number is a figure as a text that rounding does not change.
func number(x any) string {
	if f, ok := x.(float64); ok && !nan(f) {
		return fmt.Sprintf("%.6f", f+1e-9)
	}
	return "none"
}

func sortedIDs(x any) string {
	list := strings.Split(fmt.Sprint(x), ", ")
	slices.Sort(list)
	return strings.Join(list, ",")
}

func (c *comparison) demand() {
	filter, keeps := "", func(*waiting) bool { return true }
	switch c.IntN(6) {
	case 0:
		owner := c.one(c.values["owners"])
		filter, keeps = fmt.Sprintf(`{"users": [%q]}`, owner), func(w *waiting) bool { return w.owner == owner }
	case 1:
		project := c.one(c.values["jobProjects"])
		filter = fmt.Sprintf(`{"projects": [%q]}`, project)
		keeps = func(w *waiting) bool { return slices.Contains(strings.Split(w.project, ","), project) }
	case 2, 3:
		var f choice
		user := c.leaveOut(&f, c.values["owners"])
		filter, keeps = f.json, func(w *waiting) bool { return user(w.owner) }
	}
	var chosen []*waiting
	for _, w := range c.waits {
		if w.overlaps(c.from, c.to) && keeps(w) {
			chosen = append(chosen, w)
		}
	}
	by := c.some([]string{"user", "project", "schedd", "gpus", "gpuMemory"}, 2)
	c.rows(text("demand", "summary", by, filter, `, "totals": false`), by, demandMetrics, c.demandFigures(chosen, by))
	bucket, zone, of := c.bucket(c.minutes, 5, c.from, c.to)
	c.series(text("demand", "timeseries", by, filter, fmt.Sprintf(`, "bucket": %q, "timezone": %q, "metrics": %s`, bucket,
		zone, quoted(demandSeries))), by, "", c.demandPoints(chosen, by, of))
	c.waitingNow(chosen, filter)
	c.obstacles(keeps, filter)
}

var (
	demandMetrics = []string{"waits", "started", "startedElsewhere", "left", "medianWaitHours", "p90WaitHours",
		"meanWaitHours", "expansionFactor", "waitingJobs", "waitingGpus", "waitingUsers", "oldestHours", "freeWhileWaiting"}
	demandSeries = []string{"waitingGpus", "waitingJobs", "waitingUsers", "started", "startedElsewhere",
		"freeWhileWaiting"}
)

// waitsOf are waits by group.
func waitsOf(list []*waiting, by []string) map[string][]*waiting {
	of := map[string][]*waiting{}
	for _, w := range list {
		g := group(by, w.by)
		of[g] = append(of[g], w)
	}
	return of
}

// newestPoll is that of the window; 0: there is none.
func (c *comparison) newestPoll() (newest int64) {
	for _, p := range c.queues.Polls {
		if c.from <= p && p <= c.to {
			newest = p
		}
	}
	return newest
}

func (c *comparison) demandFigures(chosen []*waiting, by []string) map[cell]float64 {
	points := map[cell]float64{}
	hours := func(x int64) float64 { return float64(x) / float64(hour) }
	newest := c.newestPoll()
	taken := c.taken(calendar{c.from, c.to})
	for g, list := range waitsOf(chosen, by) {
		set := func(name string, value float64) { points[cell{g, name, 0}] = value }
		var items []item
		started, elsewhere, left, waited, effort, ran, oldest := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, math.NaN()
		for _, w := range list {
			inside := c.from <= w.End && w.End <= c.to
			it := item{hours(max(w.known, c.from) - w.Begin), hours(min(w.End, c.to) - w.Begin),
				inside && w.Outcome == "started"}
			if it.entry < it.exit {
				items = append(items, it)
			}
			switch {
			case inside && w.Outcome == "started":
				started++
				waited += hours(w.End - w.Begin)
				if w.Elsewhere {
					elsewhere++
				}
				if w.RanUntil != 0 && w.RanUntil <= c.to {
					effort += w.gpus * hours(w.End-w.Begin+w.Ran)
					ran += w.gpus * hours(w.Ran)
				}
			case inside && w.Outcome == "left":
				left++
			}
			if newest != 0 && w.seenAt(newest) && !(hours(newest-w.Begin) <= oldest) {
				oldest = hours(newest - w.Begin)
			}
		}
		set("waits", float64(len(list)))
		set("started", started)
		set("startedElsewhere", elsewhere)
		set("left", left)
		set("meanWaitHours", waited/started)
		set("expansionFactor", effort/ran)
		set("oldestHours", oldest)
		steps := kaplanMeier(items)
		for name, percent := range map[string]int64{"medianWaitHours": 50, "p90WaitHours": 10} {
			x, ok := firstAtMost(steps, percent, false).(float64)
			if !ok {
				x = math.NaN()
			}
			set(name, x)
		}
		jobs, gpus, users := c.queues.levels(list, c.from, c.to)
		set("waitingJobs", jobs)
		set("waitingGpus", gpus)
		set("waitingUsers", users)
		set("freeWhileWaiting", taken(list)[c.from])
	}
	return points
}

func (c *comparison) demandPoints(chosen []*waiting, by []string, of calendar) map[cell]float64 {
	points := map[cell]float64{}
	taken := c.taken(of)
	for g, list := range waitsOf(chosen, by) {
		free := taken(list)
		of.each(c.from, c.to, func(start, a, b int64) {
			set := func(name string, value float64) { points[cell{g, name, start}] = value }
			jobs, gpus, users := c.queues.levels(list, a, b)
			set("waitingJobs", jobs)
			set("waitingGpus", gpus)
			set("waitingUsers", users)
			set("freeWhileWaiting", free[start])
			started, elsewhere := 0.0, 0.0
			for _, w := range list {
				if w.Outcome == "started" && c.from <= w.End && w.End <= c.to && of.of(w.End) == start {
					started++
					if w.Elsewhere {
						elsewhere++
					}
				}
			}
			set("started", started)
			set("startedElsewhere", elsewhere)
		})
	}
	return points
}

// taken returns what jobs could have taken of the free GPUs, by bucket.
func (c *comparison) taken(of calendar) func([]*waiting) map[int64]float64 {
	sums, times := map[int64]map[*waiting]float64{}, map[int64]float64{}
	c.queues.known(math.MinInt64, math.MaxInt64, func(i int, a, b int64) {
		if b <= c.from || a >= c.to {
			return
		}
		poll := c.queues.Polls[i]
		stock, there := c.stock(poll)
		if !there {
			return
		}
		var now []*waiting
		for _, w := range c.waits {
			if w.seenAt(poll) {
				now = append(now, w)
			}
		}
		took := take(now, stock)
		of.each(c.from, c.to, func(start, x, y int64) {
			if length := float64(min(y, b) - max(x, a)); length > 0 {
				times[start] += length
				if sums[start] == nil {
					sums[start] = map[*waiting]float64{}
				}
				for w, n := range took {
					sums[start][w] += n * length
				}
			}
		})
	})
	return func(list []*waiting) map[int64]float64 {
		free := map[int64]float64{}
		of.each(c.from, c.to, func(start, _, _ int64) {
			sum := 0.0
			for _, w := range list {
				sum += sums[start][w]
			}
			free[start] = sum / times[start]
		})
		return free
	}
}

// waitingNow compares the jobs that the newest poll sees.
func (c *comparison) waitingNow(chosen []*waiting, filter string) {
	newest := c.newestPoll()
	all, begins := c.slots(c.from, c.to)
	last := int64(math.MinInt64)
	for _, begin := range begins {
		last = max(last, begin)
	}
	why := map[*waiting]string{}
	if newest != 0 {
		if stock, there := c.stock(newest); there {
			why, _, _ = obstaclesAt(c.queues.allAt(c.waits, newest), stock)
		}
	}
	var want []string
	for _, w := range chosen {
		if newest == 0 || !w.seenAt(newest) {
			continue
		}
		free := "none"
		if len(begins) > 0 {
			n := 0.0
			for _, x := range all {
				if x.begin == last && x.free && (w.gpuMemory == 0 || x.gpu.memory >= w.gpuMemory) {
					n++
				}
			}
			free = number(n)
		}
		want = append(want, fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|%d|%s|%s", w.job, w.owner, w.project, w.schedd, number(w.gpus),
			stamp(w.Begin), number(float64(newest-w.Begin)/float64(hour)), w.Attempts, free, why[w]))
	}
	c.lines(text("demand", "waiting", nil, filter, ""), want, func(r map[string]any) string {
		obstacle, _ := r["obstacle"].(string)
		return fmt.Sprintf("%v|%v|%v|%v|%s|%s|%s|%v|%s|%s", r["job"], r["user"], r["project"], r["schedd"],
			number(r["gpus"]), at(r["since"]), number(r["hours"]), r["attempts"], number(r["freeNow"]), obstacle)
	})
}

// allAt are the waits that a poll sees.
func (q *queues) allAt(list []*waiting, poll int64) (now []*waiting) {
	for _, w := range list {
		if w.seenAt(poll) {
			now = append(now, w)
		}
	}
	return now
}

// obstacles compares why jobs wait and GPUs sit unused.
func (c *comparison) obstacles(keeps func(*waiting) bool, filter string) {
	by := append(c.some([]string{"user", "gpus", "gpuMemory"}, 1), "obstacle")
	gpusBy := append(c.some([]string{"device", "memory", "ownership"}, 1), "reason")
	f := c.choose(false)
	bucket, zone, of := c.bucket(c.minutes, 5, c.from, c.to)
	jobs, unused, times := map[cell]float64{}, map[cell]float64{}, map[int64]float64{}
	c.queues.known(math.MinInt64, math.MaxInt64, func(i int, a, b int64) {
		if b <= c.from || a >= c.to {
			return
		}
		poll := c.queues.Polls[i]
		stock, there := c.stock(poll)
		if !there {
			return
		}
		obstacle, reason, _ := obstaclesAt(c.queues.allAt(c.waits, poll), stock)
		of.each(c.from, c.to, func(start, x, y int64) {
			length := float64(min(y, b) - max(x, a))
			if length <= 0 {
				return
			}
			times[start] += length
			for w, o := range obstacle {
				if keeps(w) {
					g := group(by[:len(by)-1], w.by)
					k := strings.TrimPrefix(g+"|"+o, "|")
					if len(by) > 1 {
						k = g + "|" + o
					}
					jobs[cell{k, "waitingJobs", start}] += length
					jobs[cell{k, "waitingGpus", start}] += w.gpus * length
				}
			}
			for i, r := range reason {
				if x := stock[i]; r != "busy" && f.gpu(x.machine, x.gpu) {
					g := group(gpusBy, func(name string) string {
						if name == "reason" {
							return r
						}
						return x.by(name)
					})
					unused[cell{g, "gpus", start}] += length
				}
			}
		})
	})
	for _, m := range []map[cell]float64{jobs, unused} {
		for k := range m {
			m[k] /= times[k.at]
		}
	}
	drawn := fmt.Sprintf(`, "bucket": %q, "timezone": %q`, bucket, zone)
	c.series(text("demand", "obstacles", by, filter, drawn+`, "metrics": ["waitingGpus", "waitingJobs"]`), by, "", jobs)
	c.series(text("demand", "unused", gpusBy, f.json, drawn), gpusBy, "gpus", unused)
	c.unusedNow(f)
}

// unusedNow compares the GPUs that nobody uses at the newest poll that has a slice.
func (c *comparison) unusedNow(f choice) {
	var want []string
	for i := len(c.queues.Polls) - 1; i >= 0; i-- {
		poll := c.queues.Polls[i]
		if poll > c.to || poll < c.from {
			continue
		}
		stock, there := c.stock(poll)
		if !there {
			continue
		}
		_, reason, served := obstaclesAt(c.queues.allAt(c.waits, poll), stock)
		count, jobs := map[string]float64{}, map[string]map[int]bool{}
		for i, r := range reason {
			if x := stock[i]; r != "busy" && f.gpu(x.machine, x.gpu) {
				k := fmt.Sprintf("%s|%s|%s|%s", x.machine, x.gpu.device, memoryText(x.gpu.memory), r)
				if count[k]++; r == "fits" {
					if jobs[k] == nil {
						jobs[k] = map[int]bool{}
					}
					jobs[k][served[i]] = true
				}
			}
		}
		for k, n := range count {
			serves := "none"
			if jobs[k] != nil {
				serves = number(float64(len(jobs[k])))
			}
			want = append(want, fmt.Sprintf("%s|%s|%s", k, number(n), serves))
		}
		break
	}
	c.lines(text("demand", "unusedNow", nil, f.json, ""), want, func(r map[string]any) string {
		memory := -1.0
		if x, ok := r["memoryGB"].(float64); ok {
			memory = x * 1024
		}
		return fmt.Sprintf("%v|%v|%s|%v|%s|%s", r["machine"], r["device"], memoryText(memory), r["reason"], number(r["gpus"]),
			number(r["servesJobs"]))
	})
}

func memoryText(mib float64) string {
	if mib < 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.0f", mib)
}
