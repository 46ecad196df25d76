package oracle

import (
	"maps"
	"slices"
	"time"
)

// view is what a window's answer is computed from: the snapshots up to 7 days around it.
type view struct {
	*records
	from, to int64
	snaps    []snapshot
	earlier  bool // there are snapshots before snaps
	ads      []ad
	jobs     bool // there is a job source
	now      int64
	memory   map[string][]stay // the states of a GPU
	ever     map[string]bool   // GPUs that are in the pool on a day of the snapshots
	backfill []*run
	primary  []*run
	shown    map[bool][]*run  // what the snapshots show on backfill and on primary
	unseen   []*run           // on both sides
	clocks   map[string]int64 // access point|UTC day → how far its clock is ahead
	manner
}

// manner is how a window is asked about.
type manner struct {
	asking  *asking
	drawn   *time.Location // the zone of buckets
	buckets []string
	filter  string                 // JSON; empty: none
	keeps   func(string, gpu) bool // the filter, by machine|GPU; nil: all
	whose   func(string) bool      // the filter of the users of runs; nil: all
}

// plainly asks about everything.
func plainly(r *records) manner {
	return manner{asking: &asking{r, time.UTC, 15}, drawn: time.UTC, buckets: []string{"1h", "1d"}}
}

// begin is the beginning of a snapshot's slice.
func (m *manner) begin(at int64) int64 {
	_, begin := m.asking.sliceOf(at)
	return begin
}

func (m *manner) keep(k string, g gpu) bool { return m.keeps == nil || m.keeps(k, g) }

func newView(r *records, ads []ad, jobs bool, from, to int64) *view {
	v := &view{records: r, from: from, to: to, ads: ads, jobs: jobs, memory: map[string][]stay{}, ever: map[string]bool{},
		now: r.snapshots[len(r.snapshots)-1].at, manner: plainly(r)}
	for _, s := range r.snapshots {
		switch {
		case s.at < from-7*day:
			v.earlier = true
		case s.at <= to+7*day:
			v.snaps = append(v.snaps, s)
		}
	}
	for _, k := range v.poolGPUs() {
		v.ever[k] = true
	}
	v.shown = map[bool][]*run{true: v.apparent(true), false: v.apparent(false)}
	v.correct()
	v.backfill = v.link(v.shown[true], true)
	v.primary = v.link(v.shown[false], false)
	v.unseen = v.findUnseen()
	return v
}

// gap reports whether there is a gap before snapshot i.
func (v *view) gap(i int) bool { return v.snaps[i].at-v.snaps[i-1].at > v.limit(v.snaps[i-1].at) }

// run is a job's stay on a machine.
type run struct {
	job, owner, machine string
	gpus                map[string]bool
	opening             map[string]bool // those of its first snapshot
	leader              string          // the first GPU of its first snapshot
	own                 string          // the ad that describes it
	ownStart            int64
	not                 []int64 // starts of ads that describe other runs
	fresh               *run    // before ads tell of it
	saved               int64   // until when the job has saved its work
	backfill, hidden    bool    // hidden: no snapshot shows it
	place               gpu     // of a hidden run
	sights              []int   // snapshots at which it is seen
	begun, lasted       int     // first and last snapshot of the run that this is a part of
	next                int     // the snapshot after a part that no snapshot shows
	end                 int     // the first snapshot at which it is over, -1: lost or running
	lost                bool
	stale               bool

	previous, seen, lastSeen, absent int64 // brackets of start and end; previous and absent 0: none
	gone                             int64 // until when an ad can tell of the end
	split                            bool  // it ends at a split: a later part of the run continues
	part                             bool  // it begins at a split
	started, ended                   int64
	startTold, endTold               bool // by an ad
	running                          bool // at the end of the data
	outcome, evidence, cause, link   string
	takeover                         bool
	takenOverBy                      string
}

// first and last are the snapshots that show the run. A part between two starts that no snapshot shows lies between
// them: its first is then later than its last.
func (r *run) first() int {
	if len(r.sights) == 0 {
		return r.next
	}
	return r.sights[0]
}

func (r *run) last() int {
	if len(r.sights) == 0 {
		return r.next - 1
	}
	return r.sights[len(r.sights)-1]
}

func (r *run) ids() []string {
	var ids []string
	for id := range r.gpus {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// held returns the GPUs that each job holds at a snapshot on one side. A backfill row of a GPU that is claimed on
// primary holds nothing; of a job with such a row the others are stale as well: they begin no run.
func (v *view) held(s snapshot, backfill bool) (map[string]*run, []string) {
	taken := map[string]bool{}
	for _, w := range s.rows {
		if !w.backfill && w.state == "Claimed" {
			taken[key(w.machine, w.gpu)] = true
		}
	}
	jobs, order := map[string]*run{}, []string(nil)
	for _, w := range s.rows {
		if w.backfill != backfill || w.state != "Claimed" {
			continue
		}
		k := w.job + "|" + w.machine
		if w.job == "" {
			k = w.owner + "|" + w.machine + "|" + w.gpu
		}
		if jobs[k] == nil {
			jobs[k] = &run{job: w.job, owner: w.owner, machine: w.machine, backfill: backfill, gpus: map[string]bool{}}
			order = append(order, k)
		}
		if backfill && taken[key(w.machine, w.gpu)] {
			jobs[k].stale = true
			continue
		}
		jobs[k].gpus[w.gpu] = true
	}
	return jobs, order
}

func common(a, b map[string]bool) bool {
	for id := range a {
		if b[id] {
			return true
		}
	}
	return false
}

// apparent returns the runs that the snapshots show.
func (v *view) apparent(backfill bool) (runs []*run) {
	open := map[string]*run{}
	var openKeys []string // in order of sight
	for i, s := range v.snaps {
		now, order := v.held(s, backfill)
		claimed := map[string]string{} // GPU → its primary user
		for _, w := range s.rows {
			if !w.backfill && w.state == "Claimed" {
				claimed[key(w.machine, w.gpu)] = w.owner
			}
		}
		for _, k := range slices.Clone(openKeys) {
			r := open[k]
			finish := func(lost bool) {
				if r.lost = lost; !lost {
					r.end = i
				}
				runs = append(runs, r)
				delete(open, k)
				openKeys = slices.DeleteFunc(openKeys, func(x string) bool { return x == k })
			}
			switch {
			case v.gap(i):
				finish(true)
			case !s.machines[r.machine]:
				bridged := false
				if s := i - 1; i+1 < len(v.snaps) && v.snaps[s].machines[r.machine] && v.snaps[i+1].machines[r.machine] &&
					!v.gap(i+1) {
					after, _ := v.held(v.snaps[i+1], backfill)
					bridged = after[k] != nil && common(after[k].gpus, r.gpus)
				}
				if !bridged {
					finish(true)
				}
			default:
				var taker string
				taken := false
				if backfill {
					for _, id := range r.ids() {
						if user, ok := claimed[key(r.machine, id)]; ok {
							if !taken {
								taker = user
							}
							taken = true
						}
					}
				}
				if taken || now[k] == nil || !common(now[k].gpus, r.gpus) {
					r.takeover, r.takenOverBy = taken, taker
					finish(false)
					break
				}
				maps.Copy(r.gpus, now[k].gpus)
				r.sights = append(r.sights, i)
			}
		}
		for _, k := range order {
			r := now[k]
			if open[k] == nil && !(r.stale && r.job != "") && len(r.gpus) > 0 {
				r.sights, r.end, r.opening = []int{i}, -1, maps.Clone(r.gpus)
				open[k] = r
				openKeys = append(openKeys, k)
			}
		}
	}
	for _, k := range openKeys {
		open[k].running = true
		runs = append(runs, open[k])
	}
	slices.SortStableFunc(runs, func(a, b *run) int { return a.first() - b.first() })
	return runs
}
