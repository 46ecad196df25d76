// Package oracle holds a second, slow and obvious computation of backfill availability and evictions (methodology
// sections 7, 8, 9 and 12): plain loops over the rows of the month files and over job ads, without code of the product.
// Its tests compare both on golden and on made-up pools.
package oracle

import (
	"cmp"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	_ "modernc.org/sqlite" // the driver
)

// Times are microseconds since 1970 (UTC).
const (
	second = int64(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	skew   = 120 * second
)

type row struct {
	slot, gpu, state, device, projects, machine, owner, job, prevented string
	memory, usage                                                      float64 // −1: none
	backfill, flagged                                                  bool    // flagged: by BackfillSlot
	excluded                                                           bool
	at                                                                 int64 // its own time
	number                                                             int   // in the order of the files
}

type snapshot struct {
	at, end  int64            // of its first and of its last row
	all      []row            // of excluded machines and without a GPU, too, in file order
	rows     []row            // with a GPU, machines not excluded, in file order
	machines map[string]bool  // with any row
	of       map[string][]row // by machine|GPU
}

// records are all snapshots of a directory.
type records struct {
	snapshots []snapshot
	chtc      map[string]bool
	limits    map[int64]int64           // UTC day → the gap limit
	bridges   map[int64]int64           // snapshot → how far the next one is, if incomplete ones between them are left out
	pool      map[int64]map[string]bool // UTC day → GPUs with a backfill row on it or on the day before
	attribute map[int64]map[string]gpu  // UTC day → GPU → its attributes
	seen      map[int64]map[string]slot // snapshot → what its GPUs are
}

var dataSlot = regexp.MustCompile(`^data\d+(_\d+)?(@|$)`)

var monthFile = regexp.MustCompile(`^gpu_state_\d{4}-\d{2}\.db$`)

func readRecords(t testing.TB, dir, zone string) *records {
	r := &records{chtc: map[string]bool{}, limits: map[int64]int64{}, seen: map[int64]map[string]slot{}}
	if text, err := os.ReadFile(filepath.Join(dir, "chtc_owned")); err == nil {
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				r.chtc[line] = true
			}
		}
	}
	var masks struct {
		Excluded map[string]string `yaml:"excluded_hosts"`
	}
	if text, err := os.ReadFile(filepath.Join(dir, "masked_hosts.yaml")); err == nil {
		require.NoError(t, yaml.Unmarshal(text, &masks))
	}
	excluded := func(machine string) bool {
		for pattern := range masks.Excluded {
			if strings.Contains(strings.ToLower(machine), strings.ToLower(pattern)) {
				return true
			}
		}
		return false
	}
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []row
	var last string
	var at int64
	clock := localClock{location: location}
	for _, e := range entries {
		if !monthFile.MatchString(e.Name()) {
			continue
		}
		db, err := sql.Open("sqlite", filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		orNull := func(column string) string {
			var there bool
			require.NoError(t, db.QueryRow("SELECT count(*) FROM pragma_table_info('gpu_state') WHERE name = ?",
				column).Scan(&there))
			if there {
				return column
			}
			return "NULL"
		}
		rows, err := db.Query("SELECT Name, AssignedGPUs, State, GPUs_DeviceName, PrioritizedProjects, Machine, " +
			"RemoteOwner, GlobalJobId, CAST(timestamp AS TEXT), " + orNull("PreventJobsReason") + ", " +
			"coalesce(GPUs_GlobalMemoryMb, -1), coalesce(GPUsAverageUsage, -1), coalesce(" + orNull("BackfillSlot") +
			", 0) FROM gpu_state ORDER BY rowid")
		require.NoError(t, err)
		for rows.Next() {
			var c [10]sql.NullString
			var memory, usage, flag float64
			require.NoError(t, rows.Scan(&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7], &c[8], &c[9], &memory,
				&usage, &flag))
			if text := c[8].String; text != last {
				last, at = text, clock.utc(t, text)
			}
			w := row{slot: c[0].String, gpu: strings.TrimSpace(c[1].String), state: c[2].String,
				device: strings.TrimSpace(c[3].String), projects: strings.TrimSpace(c[4].String),
				machine: strings.TrimSpace(c[5].String), owner: strings.TrimSpace(c[6].String), job: strings.TrimSpace(c[7].String),
				prevented: strings.TrimSpace(c[9].String), memory: memory, usage: usage, at: at, number: len(all)}
			if dataSlot.MatchString(w.slot) {
				continue
			}
			w.excluded = excluded(w.machine)
			w.flagged = flag == 1
			w.backfill = w.flagged || strings.Contains(strings.ToLower(w.slot), "backfill")
			switch w.state {
			case "Matched":
				w.state = "Unclaimed"
			case "Preempting":
				w.state = "Claimed"
			}
			if w.owner == "" {
				w.owner = "Unknown"
			}
			all = append(all, w)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		require.NoError(t, db.Close())
	}
	r.snapshots = unite(all)
	r.leaveOut()
	r.describe()
	return r
}

// unite makes snapshots of rows, one row after the other.
func unite(all []row) (list []snapshot) {
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	var since map[string]int64 // the first row of a machine, slot and GPU in the snapshot
	for _, w := range all {
		k := w.machine + "|" + w.slot + "|" + w.gpu
		first, again := since[k]
		if n := len(list) - 1; n < 0 || w.at-list[n].at >= minute && (w.at-list[n].end >= 20*second ||
			w.at-list[n].at >= 5*minute || again && w.at-first >= minute) {
			list = append(list, snapshot{at: w.at, machines: map[string]bool{}, of: map[string][]row{}})
			since, again = map[string]int64{}, false
		}
		if !again {
			since[k] = w.at
		}
		s := &list[len(list)-1]
		s.end, s.all = w.at, append(s.all, w)
	}
	for i := range list {
		s := &list[i]
		slices.SortFunc(s.all, func(a, b row) int { return cmp.Compare(a.number, b.number) })
		for _, w := range s.all {
			if w.machine == "" || w.excluded {
				continue
			}
			if s.machines[w.machine] = true; w.gpu != "" {
				s.rows = append(s.rows, w)
				s.of[key(w.machine, w.gpu)] = append(s.of[key(w.machine, w.gpu)], w)
			}
		}
	}
	return list
}

// leaveOut takes the incomplete snapshots away.
func (r *records) leaveOut() {
	var counted []snapshot
	bridges, complete, before := map[int64]int64{}, 0, false
	for i, s := range r.snapshots {
		left := i > 0 && s.at-r.snapshots[i-1].at <= r.limit(r.snapshots[i-1].at) && r.incomplete(complete, i)
		if !left {
			if complete = i; before {
				last := counted[len(counted)-1].at
				bridges[last] = s.at - last
			}
			counted = append(counted, s)
		}
		before = left
	}
	r.snapshots, r.bridges, r.limits = counted, bridges, map[int64]int64{}
}

// incomplete reports whether a snapshot lacks machines of the last complete one that come back with their jobs.
func (r *records) incomplete(complete, few int) bool {
	has := func(s snapshot) map[string]bool {
		machines := map[string]bool{}
		for _, w := range s.all {
			if w.machine != "" {
				machines[w.machine] = true
			}
		}
		return machines
	}
	both := func(a, b map[string]bool) (n int) {
		for k := range a {
			if b[k] {
				n++
			}
		}
		return n
	}
	all, now := has(r.snapshots[complete]), has(r.snapshots[few])
	if len(all) < 5 || 2*len(now) >= len(all) || 10*(len(now)-both(now, all)) > len(now) {
		return false
	}
	jobs := func(s snapshot) map[string]bool { // of the machines that lack
		found := map[string]bool{}
		for _, w := range s.all {
			if w.gpu != "" && w.state == "Claimed" && w.job != "" && all[w.machine] && !now[w.machine] {
				found[w.job+"|"+w.machine] = true
			}
		}
		return found
	}
	for _, s := range r.snapshots[few+1:] {
		if s.at-r.snapshots[complete].at <= 65*minute && 10*both(all, has(s)) >= 9*len(all) {
			ran := jobs(r.snapshots[complete])
			return 2*both(ran, jobs(s)) >= len(ran)
		}
	}
	return false
}

// localClock reads the collector's local time. In an hour that occurs twice, a first occurrence 20 s or more before the
// previous row means the second pass: a smaller step back is inside a snapshot.
type localClock struct {
	location *time.Location
	at       int64
}

func (c *localClock) utc(t testing.TB, text string) int64 {
	wall, err := time.Parse("2006-01-02 15:04:05.999999", text)
	require.NoError(t, err)
	var possible []int64
	for _, about := range []time.Duration{-24 * time.Hour, 24 * time.Hour} { // the offsets before and after a change
		_, offset := time.Unix(wall.Unix(), 0).Add(about).In(c.location).Zone()
		u := wall.UnixMicro() - int64(offset)*second
		const layout = "2006-01-02 15:04:05.000000"
		if time.UnixMicro(u).In(c.location).Format(layout) == wall.Format(layout) && !slices.Contains(possible, u) {
			possible = append(possible, u)
		}
	}
	require.NotEmpty(t, possible, "a local time that does not exist: not for this oracle")
	slices.Sort(possible)
	at := possible[0]
	if len(possible) == 2 && at <= c.at-20*second {
		at = possible[1]
	}
	c.at = at
	return at
}

// cadence of a UTC day.
func (r *records) cadence(d int64) int64 {
	own := func(d int64) (int64, bool) {
		var distances []int64
		for i := 1; i < len(r.snapshots); i++ {
			if a, b := r.snapshots[i-1].at, r.snapshots[i].at; a/day == d && b/day == d {
				distances = append(distances, b-a)
			}
		}
		if len(distances) < 8 {
			return 0, false
		}
		slices.Sort(distances)
		n := len(distances)
		return (distances[(n-1)/2] + distances[n/2]) / 2, true
	}
	if c, ok := own(d); ok {
		return c
	}
	if c, ok := own(d - 1); ok {
		return c
	}
	return 15 * minute
}

func (r *records) limit(at int64) int64 {
	d := at / day
	if r.limits[d] == 0 {
		r.limits[d] = max(r.cadence(d)*5/2, 20*minute)
	}
	return max(r.limits[d], r.bridges[at])
}

// gpu is a GPU's device and its machine's ownership on a day.
type gpu struct {
	device, ownership string
	memory            float64 // MiB; −1: not known
}

func (g gpu) category() string {
	return map[string]string{"CHTC Owned": "Backfill (CHTC Owned)", "Researcher Owned": "Backfill (Researcher Owned)",
		"Open Capacity": "Backfill (Open Capacity)"}[g.ownership]
}

func (g gpu) machineType() string {
	if g.ownership == "Open Capacity" {
		return "Shared"
	}
	return "Priority"
}

func key(machine, id string) string { return machine + "|" + id }

// describe finds the backfill pool, devices and ownership of each day.
func (r *records) describe() {
	listed, device, owner := map[int64]map[string]bool{}, map[int64]map[string]string{}, map[int64]map[string]string{}
	memory := map[int64]map[string]float64{}
	var days []int64
	for _, s := range r.snapshots {
		d := s.at / day
		if listed[d] == nil {
			listed[d], device[d], owner[d] = map[string]bool{}, map[string]string{}, map[string]string{}
			memory[d] = map[string]float64{}
			days = append(days, d)
		}
		for _, w := range s.rows {
			k := key(w.machine, w.gpu)
			if w.backfill {
				listed[d][k] = true
			}
			if w.device != "" || device[d][k] == "" {
				device[d][k] = w.device
			}
			if _, known := memory[d][k]; w.memory >= 0 || !known {
				memory[d][k] = w.memory
			}
		}
	}
	for _, d := range days { // ownership: primary rows of the day, without one any row
		primary := map[string]bool{}
		for _, side := range []bool{false, true} {
			for _, s := range r.snapshots {
				if s.at/day != d {
					continue
				}
				for _, w := range s.rows {
					if w.backfill != side || side && primary[w.machine] {
						continue
					}
					if !side {
						primary[w.machine] = true
					}
					if owner[d][w.machine] == "" {
						owner[d][w.machine] = "Open Capacity"
					}
					if w.projects != "" {
						owner[d][w.machine] = "Researcher Owned"
					}
				}
			}
		}
		for m := range r.chtc {
			owner[d][m] = "CHTC Owned"
		}
	}
	r.pool, r.attribute = map[int64]map[string]bool{}, map[int64]map[string]gpu{}
	for _, d := range days {
		r.pool[d], r.attribute[d] = map[string]bool{}, map[string]gpu{}
		for _, from := range []int64{d - 1, d} {
			for k := range listed[from] {
				r.pool[d][k] = true
			}
			for k, name := range device[from] {
				machine, _, _ := strings.Cut(k, "|")
				if name == "" {
					name = "Unknown"
				}
				r.attribute[d][k] = gpu{name, owner[from][machine], memory[from][k]}
			}
		}
	}
}
