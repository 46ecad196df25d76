// Package oracle holds a second, slow and obvious computation of backfill availability and evictions (methodology
// sections 7, 8, 9 and 12): plain loops over the rows of the month files and over job ads, without code of the product.
// Its tests compare both on golden and on made-up pools.
package oracle

import (
	"bufio"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// ad is a job ad: attributes by lower-case name.
type ad map[string]any

func readAds(t testing.TB, files ...string) (ads []ad) {
	for _, f := range files {
		file, err := os.Open(f)
		require.NoError(t, err)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if a := parseAd(t, lines.Bytes()); !dataSlot.MatchString(a.text("StartdSlot")) {
				ads = append(ads, a)
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, file.Close())
	}
	slices.SortStableFunc(ads, func(a, b ad) int { // in the order of their writing
		return cmp.Or(cmp.Compare(must(a.date("RecordTime")), must(b.date("RecordTime"))),
			strings.Compare(a.text("GlobalJobId"), b.text("GlobalJobId")))
	})
	return ads
}

func parseAd(t testing.TB, text []byte) ad {
	var raw map[string]any
	require.NoError(t, json.Unmarshal(text, &raw))
	a := ad{}
	for k, v := range raw {
		a[strings.ToLower(k)] = v
	}
	return a
}

func (a ad) text(name string) string {
	s, _ := a[strings.ToLower(name)].(string)
	return s
}

func (a ad) number(name string) (float64, bool) {
	switch v := a[strings.ToLower(name)].(type) {
	case float64:
		return v, true
	case string:
		if x, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
			return x, true
		}
	}
	return 0, false
}

// date in microseconds, by a clock that is right; zero dates are none.
func (a ad) date(name string) (int64, bool) {
	ahead, _ := a["ahead"].(int64)
	if x, ok := a.number(name); ok {
		return int64(x*1e6) - ahead, x > 0
	}
	at, err := time.Parse(time.RFC3339, a.text(name))
	return at.UnixMicro() - ahead, err == nil
}

// accessPoint is the owner of the clock.
func (a ad) accessPoint() string {
	if name := a.text("ScheddName"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(a.text("GlobalJobId"), "#")
	return name
}

// clockDay is the UTC day that the ad belongs to, by its own clock.
func (a ad) clockDay() int64 {
	at, ok := a.end()
	if !ok {
		at, _ = a.date("JobCurrentStartDate")
	}
	ahead, _ := a["ahead"].(int64)
	return (at + ahead) / day
}

// name identifies an ad.
func (a ad) name() string {
	return fmt.Sprint(a.text("GlobalJobId"), "|", a.epoch(), "|", a["recordtime"], "|", a["jobcurrentstartdate"])
}

// earlierVacate reports whether the last vacate was that of an earlier run.
func (a ad) earlierVacate() bool {
	vacated, ok := a.date("LastVacateTime")
	return ok && vacated < must(a.date("JobCurrentStartDate"))
}

func (a ad) epoch() bool {
	if _, ok := a.date("EpochWriteDate"); ok {
		return true
	}
	meta, _ := a["metadata"].(map[string]any)
	source, _ := meta["condor_adstash_source"].(string)
	return strings.Contains(source, "epoch")
}

func (a ad) machine() string {
	if m := a.text("StartdName"); m != "" {
		return m
	}
	_, m, _ := strings.Cut(a.text("LastRemoteHost"), "@")
	return m
}

func (a ad) holds(gpus map[string]bool) bool {
	for _, id := range strings.FieldsFunc(a.text("AssignedGPUs"), func(r rune) bool { return r == ',' || r == ' ' }) {
		if !strings.HasSuffix(id, "...") && gpus[id] {
			return true
		}
	}
	return false
}

// lastRunEnd of a history ad, or the end of an epoch.
func (a ad) end() (int64, bool) {
	if code, ok := a.number("VacateReasonCode"); a.epoch() && ok && code == 1008 {
		if at, ok := a.date("JobDisconnectedDate"); ok && at > must(a.date("JobCurrentStartDate")) {
			return at, true
		}
	}
	if a.epoch() {
		return a.date("EpochWriteDate")
	}
	if at, ok := a.date("CompletionDate"); ok {
		return at, true
	}
	start, begun := a.date("JobCurrentStartDate")
	last, _ := a.number("LastJobStatus")
	status, _ := a.number("JobStatus")
	if _, code := a.number("VacateReasonCode"); !code && status == 3 && last == 1 {
		if at, ok := a.date("LastVacateTime"); ok && !a.earlierVacate() {
			return at, true
		}
	}
	if wall, ok := a.number("LastRemoteWallClockTime"); ok && begun && wall > 0 {
		return start + int64(wall*1e6), true
	}
	return a.date("EnteredCurrentStatus")
}

// written is the end of the run of an ad, by when an epoch ad was written.
func (a ad) written() int64 {
	if a.epoch() {
		return must(a.date("EpochWriteDate"))
	}
	return must(a.end())
}

// lost reports whether an ad has the code of a run that was lost with its machine.
func (a ad) lost() bool {
	code, _ := a.number("VacateReasonCode")
	return code == 1008
}

// tellsEnd reports whether a history ad tells when its run ended, and not only when the job's status last changed.
func (a ad) tellsEnd() bool {
	b := ad{}
	for k, v := range a {
		b[k] = v
	}
	delete(b, "enteredcurrentstatus")
	_, ok := b.end()
	return ok
}

// byCode is the outcome that a vacate code says.
func byCode(code, sub float64) (outcome, cause string) {
	switch int(code) {
	case 1011:
		return "evicted", "owner preemption"
	case 1018, 1019:
		return "evicted", "user or rank preemption"
	case 1010, 1013, 1014, 1015, 1016, 1037:
		return "evicted", "drain or maintenance"
	case 0, 1002, 1005, 1007, 1008, 1012, 1020, 1021, 1024:
		return "evicted", "fault"
	case 1000, 1001, 1004, 1009, 1017, 1022:
		return "evicted", "access point"
	case 1023:
		return "removed", ""
	case 1025:
		return "yielded", ""
	case 1003, 1006, 1026, 1027, 1028, 1029, 1030, 1031, 1032, 1033, 1034, 1035, 1036:
		return "ambiguous", ""
	}
	switch {
	case code < 1000 && sub <= -1000:
		return "evicted", "fault"
	case code < 1000:
		return "held", ""
	}
	return "evicted", "unknown"
}

// reasons are the vacate codes that the tiny pools count by name.
var reasons = map[string]float64{"StartdPreemptExpression": 1011, "StartdDraining": 1014, "SuccessfulCheckpoint": 1025,
	"ScheddVacate": 1022, "ReconnectFailed": 1008}

// earlierRuns is the outcome of all runs of the job before its last one, "" if they did not all end alike.
func (a ad) earlierRuns() (outcome, cause string) {
	left := map[float64]float64{}
	counts := func(name string) map[string]any {
		of, _ := a[strings.ToLower(name)].(map[string]any)
		if text := strings.Trim(a.text(name), "[] "); text != "" { // as the legacy schema stores them
			of = map[string]any{}
			for count := range strings.SplitSeq(text, ";") {
				reason, number, _ := strings.Cut(count, "=")
				n, _ := strconv.ParseFloat(strings.TrimSpace(number), 64)
				of[strings.TrimSpace(reason)] = n
			}
		}
		return of
	}
	code := func(name string) float64 {
		if c, ok := reasons[name]; ok {
			return c
		}
		return 1 // a hold
	}
	for name, n := range counts("NumVacatesByReason") {
		left[code(name)] += n.(float64)
	}
	for name, n := range counts("NumVacatesByReasonPreExecution") {
		left[code(name)] -= n.(float64)
	}
	if own, ok := a.number("VacateReasonCode"); ok && !a.epoch() {
		if own > 0 && own < 1000 {
			own = 1
		}
		left[own]--
	}
	for c, n := range left {
		if n > 0 && outcome != "" {
			return "", ""
		}
		if n > 0 {
			outcome, cause = byCode(c, 0)
		}
	}
	return outcome, cause
}

// outcome of the run that an ad's dates describe: "" if the ad does not say.
func (a ad) outcome() (outcome, cause string) {
	if _, held := a.number("HoldReasonCode"); held && a.epoch() {
		return "held", ""
	}
	if code, ok := a.number("VacateReasonCode"); ok {
		sub, _ := a.number("VacateReasonSubCode")
		return byCode(code, sub)
	}
	if a.epoch() {
		code, exited := a.number("ExitCode")
		if saved, saves := a.number("SuccessCheckpointExitCode"); saves && exited && saved == code {
			exited = false
		}
		if exited || a["exitbysignal"] == true {
			return "completed", ""
		}
		return "", ""
	}
	status, _ := a.number("JobStatus")
	if _, ok := a.date("CompletionDate"); ok || status == 4 {
		return "completed", ""
	}
	switch status {
	case 3:
		last, ok := a.number("LastJobStatus")
		switch {
		case !ok || last == 2:
			return "removed", ""
		case last == 5:
			return "held", ""
		case last == 1 && !a.earlierVacate():
			return "evicted", "" // the cause by the snapshots
		}
	case 5:
		return "held", ""
	}
	return "", ""
}
