package queues

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Attribution is how the project of a job is known (methodology section 17).
type Attribution uint8

const (
	ByJob  Attribution = iota // from rows of the job
	ByUser                    // all jobs of its user have the same list
	ByNone                    // it is not known
	// Attributions is their number.
	Attributions int = iota
)

// Projects are the lists of projects of the jobs and users whose rows are in reach of a window (methodology section
// 17). They are never changed.
type Projects struct {
	Rows        int    // in reach
	Fingerprint uint64 // equal Projects have equal ones: a sum of hashes, which has no order

	days   []*Day
	reach  reach
	jobs   map[timeline.Job]timeline.Symbol
	owners map[string]ownerList // by Owner
}

// ownerList is the list that all jobs of an owner have, unless they differ.
type ownerList struct {
	list   timeline.Symbol
	differ bool
}

// seed is of the fingerprints, which are never stored.
var seed = maphash.MakeSeed()

// projectReach is how far around a window rows say which projects its jobs have.
const projectReach = 7 * pool.Day

type jobProjects struct {
	list        timeline.Symbol
	first, last uint32          // the polls of the row that has the list
	owner       timeline.Symbol // the first row that has one says so
}

// add adds a row of the job. The list is that of the newest row that has one, of equals the last in the file.
func (j *jobProjects) add(r *Row) {
	if r.Project != 0 && (j.list == 0 || cmp.Or(cmp.Compare(r.Last, j.last), cmp.Compare(r.First, j.first)) >= 0) {
		j.list, j.first, j.last = r.Project, r.First, r.Last
	}
	if j.owner == 0 {
		j.owner = r.Owner
	}
}

// reach is the first and the last poll at which rows that are in reach can have ended and begun.
type reach struct{ first, last uint32 }

func (v *View) reachOf(w pool.Window) (r reach) {
	r.first = math.MaxUint32
	for _, d := range v.Days {
		from := sort.Search(len(d.Times), func(i int) bool { return micros(d.Times[i]) >= w.From-projectReach })
		if from < len(d.Times) {
			r.first = min(r.first, d.Times[from])
		}
		end := sort.Search(len(d.Times), func(i int) bool { return micros(d.Times[i]) > w.To+projectReach })
		if end > 0 {
			r.last = max(r.last, d.Times[end-1])
		}
	}
	return r
}

// In reports whether the projects are those of a window by the rows of a view.
func (p *Projects) In(v *View, w pool.Window) bool {
	return p.reach == v.reachOf(w) && slices.Equal(p.days, v.Days)
}

// ProjectsIn returns the projects of the rows in reach of a window. Errors are ctx's.
func (v *View) ProjectsIn(ctx context.Context, w pool.Window) (*Projects, error) {
	since, until := w.From-projectReach, w.To+projectReach
	type owned struct {
		owner timeline.Symbol
		job   timeline.Job
	}
	type listed struct {
		job         timeline.Job
		list, owner timeline.Symbol
	}
	p, jobs := &Projects{days: v.Days, reach: v.reachOf(w)}, map[timeline.Job]jobProjects{}
	// Find what the rows in reach say of each job.
	others := map[owned]bool{} // further owners of a job
	for _, d := range v.Days {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("finding the projects of jobs: %w", err)
		}
		if micros(d.Last) < since {
			continue
		}
		for i := range d.Rows {
			r := &d.Rows[i]
			if micros(r.Last) < since || micros(r.First) > until {
				continue
			}
			p.Rows++
			of := jobs[r.Job]
			if of.add(r); r.Owner != of.owner {
				others[owned{r.Owner, r.Job}] = true
			}
			jobs[r.Job] = of
		}
	}
	// Sum up by job and by owner.
	p.jobs, p.owners = make(map[timeline.Job]timeline.Symbol, len(jobs)), map[string]ownerList{}
	texts := v.Names.Texts()
	for job, of := range jobs {
		p.jobs[job] = of.list
		p.own(texts[of.owner], of.list)
		p.Fingerprint += maphash.Comparable(seed, listed{job, of.list, of.owner})
	}
	for of := range others {
		p.own(texts[of.owner], p.jobs[of.job])
		p.Fingerprint += maphash.Comparable(seed, listed{timeline.Job{}, p.jobs[of.job], of.owner})
	}
	return p, nil
}

func micros(seconds uint32) pool.Micros { return pool.Micros(seconds) * pool.Second }

// own adds a job with a list to those of an owner; a job without an owner has none.
func (p *Projects) own(owner string, list timeline.Symbol) {
	if owner != "" {
		known, there := p.owners[owner]
		p.owners[owner] = ownerList{list, there && (known.differ || known.list != list)}
	}
}

// Of returns the list of projects of a job that a user runs, and how it is known; ByNone: it is not. A job without a
// GlobalJobId has that of its user.
func (p *Projects) Of(job timeline.Job, user string) (timeline.Symbol, Attribution) {
	if !job.IsNone() {
		if list, known := p.jobs[job]; known {
			return list, ByJob
		}
	}
	if list, known := p.OfUser(user); known {
		return list, ByUser
	}
	return 0, ByNone
}

// OfUser returns the list that all jobs of a user have, by their Owner: the user's whole name, and what stands before
// its first @. known is false without jobs in reach, or if they differ.
func (p *Projects) OfUser(user string) (list timeline.Symbol, known bool) {
	whole, is := p.owners[user]
	name, _, domain := strings.Cut(user, "@")
	if short, also := p.owners[name]; domain && also {
		if is {
			whole.differ = whole.differ || short.differ || short.list != whole.list
		} else {
			whole, is = short, true
		}
	}
	if !is || whole.differ {
		return 0, false
	}
	return whole.list, true
}

// Bytes is the memory that the projects take, about.
func (p *Projects) Bytes() int { return 200 + 8*len(p.days) + 40*len(p.jobs) + 60*len(p.owners) }
