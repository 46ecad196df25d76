package oracle

import (
	"cmp"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/naive"
)

// asked is what a job asks for, and whose it is.
type asked struct {
	owner, project, schedd        string
	gpus, cpus, memory, gpuMemory float64
}

// queues are the rows of the queue files.
type queues struct {
	*naive.Queues
	jobs   map[string]asked
	points map[string]bool // access points that are polled
	idle   map[string]bool // jobs with an idle row
}

func readQueues(t testing.TB, dir string) *queues {
	q := &queues{jobs: map[string]asked{}, points: map[string]bool{}, idle: map[string]bool{}}
	var all []naive.Row
	eachFile(t, dir, queueFiles, func(db *sql.DB) {
		rows, err := db.Query("SELECT GlobalJobId, ScheddName, Owner, coalesce(RequestGPUs, 1), coalesce(RequestCPUs, 0), " +
			"coalesce(RequestMemory, 0), coalesce(RequestGPUMemory, 0), QDate, coalesce(ChtcProjects, ''), first_seen, " +
			"last_seen, coalesce(JobState, '') FROM job_pressure ORDER BY rowid")
		require.NoError(t, err)
		for rows.Next() {
			var a asked
			var r naive.Row
			var state string
			require.NoError(t, rows.Scan(&r.Job, &a.schedd, &a.owner, &a.gpus, &a.cpus, &a.memory, &a.gpuMemory, &r.Queued,
				&a.project, &r.First, &r.Last, &state))
			id, _ := strconv.ParseInt(r.Job[strings.LastIndex(r.Job, "#")+1:], 10, 64)
			if r.Queued > r.First || r.Queued < id-120 {
				r.Queued = id
			}
			r.Queued = min(r.Queued, r.First) // it was idle then
			r.Queued, r.First, r.Last, r.Running = r.Queued*second, r.First*second, r.Last*second, state == "running"
			a.gpus, a.project = max(1, a.gpus), projectsOf(a.project)
			q.points[a.schedd] = true
			if !r.Running {
				q.jobs[r.Job], q.idle[r.Job] = a, true
			}
			all = append(all, r)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	})
	slices.SortStableFunc(all, func(a, b naive.Row) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	q.Queues = naive.New(all)
	return q
}

// waiting is a wait with what its job asks for.
type waiting struct {
	naive.Wait
	asked
	job    string
	known  int64 // from when on it is under observation
	unseen bool  // only an ad shows it
}

func (w *waiting) overlaps(from, to int64) bool { return w.Counted <= to && w.End >= from }

func (w *waiting) seenAt(poll int64) bool { return !w.unseen && w.First <= poll && poll <= w.Last }

func (w *waiting) by(grouping string) string {
	memory := "any"
	if w.gpuMemory > 0 {
		memory = memoryClass(w.gpuMemory)
	}
	gpus := "1"
	switch n := math.Ceil(w.gpus); {
	case n > 8:
		gpus = ">8"
	case n >= 5:
		gpus = "5-8"
	case n >= 3:
		gpus = "3-4"
	case n >= 2:
		gpus = "2"
	}
	return map[string]string{"user": w.owner, "project": w.project, "schedd": w.schedd, "gpus": gpus,
		"gpuMemory": memory}[grouping]
}

// runsOfJobs are the runs of each job on both sides, with the middle of two snapshots for a time that no ad tells.
func (v *view) runsOfJobs() map[string][]naive.Run {
	of := map[string][]naive.Run{}
	for _, r := range slices.Concat(v.backfill, v.primary, v.unseen) {
		if r.job == "" {
			continue
		}
		x := naive.Run{Start: r.started, End: r.ended, Whole: !r.running && r.outcome != "lost"}
		if !r.hidden {
			if len(r.sights) > 0 {
				x.Seen, x.Estimated = v.snaps[r.first()].at, !r.startTold && !r.part
			}
			if f := r.first(); !r.startTold && !r.part && f > 0 && !v.gap(f) {
				x.Start = (v.snaps[f-1].at + v.snaps[f].at) / 2
			}
			if !r.endTold && r.end >= 0 && !r.split {
				x.End = (v.snaps[r.last()].at + v.snaps[r.end].at) / 2
			}
		}
		x.End = max(x.End, x.Start)
		of[r.job] = append(of[r.job], x)
	}
	for _, list := range of {
		slices.SortStableFunc(list, func(a, b naive.Run) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
	}
	return of
}

func (q *queues) covers(t int64) bool {
	i, at := slices.BinarySearch(q.Polls, t)
	if !at {
		i--
	}
	if i < 0 {
		return false
	}
	if i+1 < len(q.Polls) && q.Known(i) {
		return true
	}
	return q.Polls[i] == t && i > 0 && q.Known(i-1)
}

// waits are all waits of a view.
func (q *queues) waits(v *view) (list []*waiting) {
	of := v.runsOfJobs()
	for job, a := range q.jobs {
		for _, w := range q.Waits(job, of[job]) {
			x := &waiting{Wait: w, asked: a, job: job, known: w.First}
			if v.jobs && w.AtQDate && q.covers(w.Begin) {
				x.known = w.Begin
			}
			if w.Outcome == "started" {
				x.known = min(x.known, w.End)
			}
			list = append(list, x)
		}
	}
	if !v.jobs {
		return list
	}
	ads := v.byJob()
	for job, runs := range of {
		schedd, _, _ := strings.Cut(job, "#")
		if q.idle[job] || !q.points[schedd] || len(ads[job]) == 0 {
			continue
		}
		last := ads[job][len(ads[job])-1]
		a := asked{owner: cmp.Or(last.text("Owner"), strings.Split(last.text("User")+"@", "@")[0]), schedd: schedd,
			project: projectsOf(last.text("ChtcProjects"))}
		a.gpus, _ = last.number("RequestGPUs")
		a.cpus, _ = last.number("RequestCpus")
		a.memory, _ = last.number("RequestMemory")
		a.gpuMemory, _ = last.number("RequestGPUMemory")
		a.gpus, a.gpuMemory = max(1, a.gpus), max(0, a.gpuMemory)
		w := &waiting{asked: a, job: job, unseen: true}
		queued, _ := last.number("QDate") // as stored
		w.Begin = int64(queued) * second
		w.Outcome, w.End = "started", runs[0].Start
		if runs[0].Whole {
			w.Ran, w.RanUntil = runs[0].End-runs[0].Start, runs[0].End
		}
		first := int64(math.MaxInt64)
		for _, x := range ads[job] {
			if at, ok := x.date("JobStartDate"); ok {
				first = min(first, at)
			}
		}
		if first < w.End-skew {
			w.End, w.Ran, w.RanUntil = first, 0, 0
		}
		w.known, w.Counted = w.Begin, w.Begin
		early := w.Begin - w.End
		w.End = max(w.Begin, w.End)
		if early <= skew && q.covers(w.Begin) && q.covers(w.End) {
			list = append(list, w)
		}
	}
	return list
}

// known are the covered stretches between polls, cut to [from, to]; i is the poll that they begin with.
func (q *queues) known(from, to int64, do func(i int, a, b int64)) {
	for i := range len(q.Polls) - 1 {
		if a, b := max(q.Polls[i], from), min(q.Polls[i+1], to); a < b && q.Known(i) {
			do(i, a, b)
		}
	}
}

// levels are averages over covered time: waiting jobs, GPUs and users.
func (q *queues) levels(list []*waiting, from, to int64) (jobs, gpus, users float64) {
	covered := 0.0
	var edges []int64
	for _, w := range list {
		edges = append(edges, w.Counted, w.End)
	}
	q.known(from, to, func(_ int, a, b int64) {
		covered += float64(b - a)
		cuts := []int64{a, b}
		for _, e := range edges {
			if a < e && e < b {
				cuts = append(cuts, e)
			}
		}
		slices.Sort(cuts)
		for i := 1; i < len(cuts); i++ {
			owners := map[string]bool{}
			for _, w := range list {
				if w.Counted <= cuts[i-1] && cuts[i] <= w.End && cuts[i-1] < cuts[i] {
					jobs += float64(cuts[i] - cuts[i-1])
					gpus += w.gpus * float64(cuts[i]-cuts[i-1])
					owners[w.owner] = true
				}
			}
			users += float64(len(owners)) * float64(cuts[i]-cuts[i-1])
		}
	})
	return jobs / covered, gpus / covered, users / covered
}

// stock are the GPUs of a slice, one each.
func (a *asking) stock(at int64) (list []slot, there bool) {
	from, to := int64(math.MaxInt64), int64(0)
	if a.minutes == 0 {
		for i, s := range a.snapshots {
			lasts := s.at + a.cadence(s.at/day)
			if i+1 < len(a.snapshots) {
				lasts = min(a.snapshots[i+1].at, s.at+a.limit(s.at))
			}
			if s.at <= at && at < lasts {
				from, to = s.at, s.at
			}
		}
	} else {
		name, _ := a.sliceOf(at)
		for _, s := range a.snapshots {
			if of, _ := a.sliceOf(s.at); of == name {
				from, to = min(from, s.at), max(to, s.at)
			}
		}
	}
	if to == 0 {
		return nil, false
	}
	all, _ := a.slots(from, to)
	sides := map[string]int{}
	for _, x := range all {
		k := key(x.machine, x.id)
		if i, known := sides[k]; known {
			if x.slots == "Real" {
				list[i] = x
			}
			continue
		}
		sides[k] = len(list)
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.machine, y.machine), cmp.Compare(x.gpu.memory, y.gpu.memory), cmp.Compare(x.id, y.id))
	})
	return list, true
}

// turn orders jobs as they take their turns.
func turn(list []*waiting) []*waiting {
	list = slices.Clone(list)
	slices.SortFunc(list, func(x, y *waiting) int {
		return cmp.Or(cmp.Compare(y.gpuMemory, x.gpuMemory), cmp.Compare(math.Ceil(y.gpus), math.Ceil(x.gpus)),
			cmp.Compare(x.job, y.job))
	})
	return list
}

// take is how many GPUs each waiting job could have taken at a poll.
func take(list []*waiting, stock []slot) map[*waiting]float64 {
	var free []float64
	for _, x := range stock {
		if x.free {
			free = append(free, x.gpu.memory)
		}
	}
	slices.Sort(free)
	taken := map[*waiting]float64{}
	for _, w := range turn(list) {
		n := int(math.Ceil(w.gpus))
		i := 0
		for i < len(free) && w.gpuMemory > 0 && free[i] < w.gpuMemory {
			i++
		}
		if len(free)-i >= n {
			free = slices.Delete(free, i, i+n)
			taken[w] = float64(n)
		}
	}
	return taken
}

// obstaclesAt are what keeps each job waiting at a poll, and why each unused GPU is, where the room of machines is not
// known (methodology section 16).
func obstaclesAt(list []*waiting, stock []slot) (obstacle map[*waiting]string, reason []string, served []int) {
	obstacle, reason, served = map[*waiting]string{}, make([]string, len(stock)), make([]int, len(stock))
	for i, x := range stock {
		switch {
		case x.busy:
			reason[i] = "busy"
		case x.kept:
			reason[i] = "prevented"
		case x.state == "drained":
			reason[i] = "drained"
		case x.state != "unclaimed":
			reason[i] = "other"
		}
	}
	suits := func(i int, memory float64) bool {
		return reason[i] == "" && (memory == 0 || stock[i].gpu.memory >= memory)
	}
	count := func(machine string, memory float64) (n int) {
		for i := range stock {
			if (machine == "" || stock[i].machine == machine) && suits(i, memory) {
				n++
			}
		}
		return n
	}
	var unfit []*waiting
	for number, w := range turn(list) {
		n, best := int(math.Ceil(w.gpus)), ""
		for _, x := range stock {
			if on := count(x.machine, w.gpuMemory); on >= n && (best == "" || on < count(best, w.gpuMemory)) {
				best = x.machine
			}
		}
		switch {
		case count("", 0) < n:
			obstacle[w] = "gpus"
		case count("", w.gpuMemory) < n:
			obstacle[w] = "gpuMemory"
		case best == "":
			obstacle[w] = "shape"
		default:
			obstacle[w] = "fits"
			for i := range stock { // of a machine the smallest come first
				if n > 0 && stock[i].machine == best && suits(i, w.gpuMemory) {
					reason[i], served[i] = "fits", number+1
					n--
				}
			}
			continue
		}
		unfit = append(unfit, w)
	}
	left := slices.Clone(reason)
	for i, x := range stock {
		if left[i] != "" {
			continue
		}
		reason[i] = "noDemand"
		for _, w := range unfit {
			on := 0
			for k := range stock {
				if stock[k].machine == x.machine && left[k] == "" && (w.gpuMemory == 0 || stock[k].gpu.memory >= w.gpuMemory) {
					on++
				}
			}
			switch {
			case w.gpuMemory > 0 && x.gpu.memory < w.gpuMemory:
				if reason[i] == "noDemand" {
					reason[i] = "gpuMemory"
				}
			case on < int(math.Ceil(w.gpus)):
				reason[i] = "shape"
			}
		}
	}
	return obstacle, reason, served
}
