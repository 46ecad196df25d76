package allocation_test

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// This file is an oracle: it answers from rows with plain loops, as the methodology reads, and shares no code with the
// product.

// naiveRow is a row of gpu_state. nil is NULL.
type naiveRow struct {
	file, text                                 string // month file and timestamp
	name, gpu, state, device, project, machine *string
	owner, job, prevent                        *string
	memory                                     *int
	at                                         int64 // set by snapshots, µs
}

func (r *naiveRow) backfill() bool { return strings.Contains(strings.ToLower(str(r.name)), "backfill") }

func str(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func blank(p *string) bool { return strings.TrimSpace(str(p)) == "" }

// naivePool is the input: rows in the order of their files, and lists.
type naivePool struct {
	zone     string
	rows     []*naiveRow
	chtc     []string
	excluded map[string]string
}

type naiveSnapshot struct {
	at   int64
	rows []*naiveRow
}

const (
	usSecond = int64(1e6)
	usHour   = 3600 * usSecond
	usDay    = 24 * usHour
)

func location(name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return l
}

// snapshots reads the timestamps: section 1.
func (p *naivePool) snapshots() []naiveSnapshot {
	zone := location(p.zone)
	const layout = "2006-01-02 15:04:05.000000"
	type run struct {
		at   int64
		rows []*naiveRow
	}
	var runs []run
	var files []string
	for _, r := range p.rows {
		if !slices.Contains(files, r.file) {
			files = append(files, r.file)
		}
	}
	slices.Sort(files)
	for _, file := range files {
		previous := int64(math.MinInt64)
		last := ""
		for _, r := range p.rows {
			if r.file != file {
				continue
			}
			if r.text != last {
				last = r.text
				utc, err := time.Parse(layout, r.text)
				if err != nil {
					panic(err)
				}
				var candidates []int64
				for minutes := -15 * 60; minutes <= 15*60; minutes += 15 {
					t := utc.Add(time.Duration(minutes) * time.Minute)
					if t.In(zone).Format(layout) == r.text {
						candidates = append(candidates, t.UnixMicro())
					}
				}
				if len(candidates) == 0 {
					panic("a local time that does not exist: " + r.text)
				}
				at := candidates[len(candidates)-1]
				for _, c := range candidates {
					if c > previous {
						at = c
						break
					}
				}
				previous = at
				runs = append(runs, run{at: at})
			}
			runs[len(runs)-1].rows = append(runs[len(runs)-1].rows, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.at, b.at) })
	var all []naiveSnapshot
	for _, r := range runs {
		if n := len(all); n > 0 && r.at-all[n-1].at < 60*usSecond {
			all[n-1].rows = append(all[n-1].rows, r.rows...)
		} else {
			all = append(all, naiveSnapshot{r.at, slices.Clone(r.rows)})
		}
	}
	order := map[*naiveRow]int{}
	for i, r := range p.rows {
		order[r] = i
	}
	for i := range all { // rows of united runs in the order of the files
		slices.SortStableFunc(all[i].rows, func(a, b *naiveRow) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(order[a], order[b]))
		})
		for _, r := range all[i].rows {
			r.at = all[i].at
		}
	}
	return all
}

func naiveDay(at int64) int64 {
	return time.UnixMicro(at).UTC().Truncate(24*time.Hour).Unix() / 86400
}

// gapLimit is the gap limit of a UTC day: section 1.
func gapLimit(all []naiveSnapshot, day int64) int64 {
	return max(5*naiveCadence(all, day)/2, 20*60*usSecond)
}

func naiveCadence(all []naiveSnapshot, day int64) int64 {
	own := func(day int64) (int64, bool) {
		var distances []int64
		for i := 1; i < len(all); i++ {
			if naiveDay(all[i].at) == day && naiveDay(all[i-1].at) == day {
				distances = append(distances, all[i].at-all[i-1].at)
			}
		}
		if len(distances) < 8 {
			return 0, false
		}
		slices.Sort(distances)
		n := len(distances)
		return (distances[(n-1)/2] + distances[n/2]) / 2, true
	}
	if c, ok := own(day); ok {
		return c
	}
	if c, ok := own(day - 1); ok {
		return c
	}
	return 15 * 60 * usSecond
}

// sliceOf names a snapshot's slice by its local beginning and the offset there, and returns that beginning: section 4.
func (p *naivePool) sliceOf(at int64, minutes int) (name string, begin int64) {
	if minutes == 0 {
		return time.UnixMicro(at).UTC().Format(time.RFC3339Nano), at
	}
	local := time.UnixMicro(at).In(location(p.zone))
	past := time.Duration(local.Minute()%minutes)*time.Minute + time.Duration(local.Second())*time.Second +
		time.Duration(local.Nanosecond())
	return local.Add(-past).Format("2006-01-02 15:04 ") + local.Format("-07:00"), at - past.Microseconds()
}

// bucketOf names the bucket that holds a time: section 5.
func bucketOf(at int64, bucket string, zone *time.Location) string {
	local := time.UnixMicro(at).In(zone)
	switch bucket {
	case "window":
		return ""
	case "1w":
		monday := local.AddDate(0, 0, -(int(local.Weekday())+6)%7)
		return monday.Format("2006-01-02")
	case "1d":
		return local.Format("2006-01-02")
	case "3h", "6h", "12h":
		hours := map[string]int{"3h": 3, "6h": 6, "12h": 12}[bucket]
		return local.Format("2006-01-02 ") + string(rune('A'+local.Hour()/hours))
	}
	minutes := map[string]int{"5m": 5, "10m": 10, "15m": 15, "30m": 30, "1h": 60}[bucket]
	return local.Format("2006-01-02 15 ") + string(rune('A'+local.Minute()/minutes)) + local.Format(" -07:00")
}

type interval struct{ from, to int64 }

// coveredStretches are the stretches of time that D unites: sections 6 and 12.
func (p *naivePool) coveredStretches(all []naiveSnapshot, minutes int) (stretches []interval) {
	limits := map[int64]int64{}
	for i, s := range all {
		day := naiveDay(s.at)
		if _, known := limits[day]; !known {
			limits[day] = gapLimit(all, day)
		}
		switch {
		case minutes > 0:
			_, begin := p.sliceOf(s.at, minutes)
			stretches = append(stretches, interval{begin, begin + int64(minutes)*60*usSecond})
		case i+1 < len(all):
			stretches = append(stretches, interval{s.at, min(all[i+1].at, s.at+limits[day])})
		default:
			stretches = append(stretches, interval{s.at, s.at + naiveCadence(all, day)})
		}
		if i+1 < len(all) && all[i+1].at-s.at <= limits[day] {
			stretches = append(stretches, interval{s.at, all[i+1].at})
		}
	}
	slices.SortFunc(stretches, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	return stretches
}

// covered is D of [from, to].
func covered(stretches []interval, from, to int64) float64 {
	sum, end := int64(0), from
	for _, x := range stretches {
		begin := max(x.from, end)
		if stop := min(x.to, to); stop > begin {
			sum += stop - begin
			end = stop
		}
	}
	return float64(sum) / float64(usHour)
}

// result is a GPU in a slice, one side: its category and its users.
type result struct {
	slice, machine, gpu, category, slots, device, memory, ownership, project string
	begin                                                                    int64
	state                                                                    string
	users                                                                    []string // of a claim
	free, prevented                                                          bool
}

func rank(state *string) int {
	switch str(state) {
	case "Claimed", "Preempting":
		return 4
	case "Unclaimed", "Matched":
		return 3
	case "Drained":
		return 2
	}
	return 1
}

var rankNames = []string{"", "other", "drained", "unclaimed", "claimed"}

var naiveOld = regexp.MustCompile(`\b(GTX 1080|P100|Quadro|A30|A40)\b`)

func naiveProject(p *string) string {
	words := strings.FieldsFunc(str(p), func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(words)
	return strings.Join(words, ",")
}

func (p *naivePool) isExcluded(machine string) bool {
	for pattern := range p.excluded {
		if strings.Contains(strings.ToLower(machine), strings.ToLower(pattern)) {
			return true
		}
	}
	return false
}

// dayFacts are what the methodology takes per UTC day.
type dayFacts struct{ device, memory, ownership string }

func (p *naivePool) facts(all []naiveSnapshot, day int64, machine, gpu string) dayFacts {
	f := dayFacts{device: "Unknown", memory: "Unknown"}
	anyPrimary, primaryProject, anyProject := false, false, false
	for _, s := range all {
		if naiveDay(s.at) != day {
			continue
		}
		for _, r := range s.rows {
			if str(r.machine) != machine || str(r.gpu) == "" {
				continue
			}
			anyProject = anyProject || !blank(r.project)
			if !r.backfill() {
				anyPrimary = true
				primaryProject = primaryProject || !blank(r.project)
			}
			if str(r.gpu) != gpu {
				continue
			}
			if str(r.device) != "" {
				f.device = *r.device
			}
			if r.memory != nil {
				switch gb := float64(*r.memory) / 1024; {
				case gb < 44:
					f.memory = "<48GB"
				case gb <= 50:
					f.memory = "48GB"
				case gb >= 75 && gb <= 85:
					f.memory = "80GB"
				case gb > 85:
					f.memory = ">80GB"
				default:
					f.memory = "Other"
				}
			}
		}
	}
	switch {
	case slices.Contains(p.chtc, machine):
		f.ownership = "CHTC Owned"
	case primaryProject, !anyPrimary && anyProject:
		f.ownership = "Researcher Owned"
	default:
		f.ownership = "Open Capacity"
	}
	return f
}

// results lists every GPU of every slice of a window, by side, and N by slice beginning: sections 2 to 5.
func (p *naivePool) results(all []naiveSnapshot, minutes int, from, to int64, includeOld bool) (list []result,
	slicesThere map[string]int64) {
	slicesThere = map[string]int64{}
	type key struct{ slice, machine, gpu string }
	rows := map[key][]*naiveRow{}
	var keys []key
	for _, s := range all {
		if s.at < from || s.at > to {
			continue
		}
		slice, begin := p.sliceOf(s.at, minutes)
		slicesThere[slice] = begin
		for _, r := range s.rows {
			if str(r.machine) == "" || str(r.gpu) == "" || p.isExcluded(*r.machine) {
				continue
			}
			k := key{slice, *r.machine, *r.gpu}
			if rows[k] == nil {
				keys = append(keys, k)
			}
			rows[k] = append(rows[k], r)
		}
	}
	known := map[string]dayFacts{}
	for _, k := range keys {
		best := func(backfill bool) (winner *naiveRow, users []string) {
			for _, r := range rows[k] {
				if r.backfill() == backfill && (winner == nil || rank(r.state) >= rank(winner.state)) {
					winner = r
				}
			}
			if winner == nil || rank(winner.state) != 4 {
				return winner, nil
			}
			for _, r := range rows[k] {
				if r.backfill() != backfill || rank(r.state) != 4 {
					continue
				}
				user := "Unknown"
				if !blank(r.owner) {
					user = *r.owner
				}
				if !slices.Contains(users, user) {
					users = append(users, user)
				}
			}
			return winner, users
		}
		primary, primaryUsers := best(false)
		backfill, backfillUsers := best(true)
		if primary != nil && rank(primary.state) == 4 {
			backfill = nil
		}
		claimed := primary != nil && rank(primary.state) == 4 || backfill != nil && rank(backfill.state) == 4
		for _, r := range []*naiveRow{primary, backfill} {
			if r == nil {
				continue
			}
			name := k.machine + "|" + k.gpu + "|" + time.UnixMicro(r.at).UTC().Format(time.DateOnly)
			f, there := known[name]
			if !there {
				f = p.facts(all, naiveDay(r.at), k.machine, k.gpu)
				known[name] = f
			}
			if !includeOld && naiveOld.MatchString(f.device) {
				continue
			}
			x := result{
				slice: k.slice, begin: slicesThere[k.slice], machine: k.machine, gpu: k.gpu, device: f.device, memory: f.memory,
				ownership: f.ownership,
				project:   naiveProject(r.project), state: rankNames[rank(r.state)], slots: "Real", users: primaryUsers,
			}
			switch {
			case r == backfill:
				x.slots, x.users = "Backfill", backfillUsers
				x.category = "Backfill (" + f.ownership + ")"
			case slices.Contains(p.chtc, k.machine):
				x.category = "Prioritized (CHTC Owned)"
			case !blank(r.project):
				x.category = "Prioritized (Researcher Owned)"
			default:
				x.category = "Open Capacity"
			}
			if !claimed && (r == primary || primary == nil) {
				x.prevented = !blank(r.prevent)
				x.free = !x.prevented && rank(r.state) == 3
			}
			list = append(list, x)
		}
	}
	return list, slicesThere
}

func (x *result) by(grouping string) string {
	return map[string]string{"category": x.category, "slots": x.slots, "device": x.device, "memory": x.memory,
		"machine": x.machine, "ownership": x.ownership, "project": x.project}[grouping]
}
