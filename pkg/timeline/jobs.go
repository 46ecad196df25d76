package timeline

import (
	"encoding/binary"

	"github.com/chtc/gpureports/pkg/pool"
)

// packedJobs are the jobs of a day's claims as numbers of variable length, in columns: the place of the access point
// in schedds; and cluster, proc and the time of queueing as differences from the job before of the same access point.
// They are nearly half of a day on disk, and few kinds ask for them: Day.Jobs reads them each time.
//
// They are in the order of statuses, the primary one first for each.
type packedJobs struct {
	Schedds []Symbol
	Packed  []byte
}

// pack packs jobs. Differences are 32-bit numbers that wrap around, so none can be wrong.
func pack(jobs []Job) (p packedJobs) {
	var schedds pool.Numbered[Symbol]
	for _, j := range jobs {
		p.Packed = binary.AppendUvarint(p.Packed, uint64(schedds.Number(j.Schedd)))
	}
	p.Schedds = schedds.All
	for _, column := range jobColumns {
		before := map[Symbol]uint32{}
		for i := range jobs {
			v := *column(&jobs[i])
			p.Packed = binary.AppendVarint(p.Packed, int64(int32(v-before[jobs[i].Schedd])))
			before[jobs[i].Schedd] = v
		}
	}
	return p
}

var jobColumns = [...]func(*Job) *uint32{
	func(j *Job) *uint32 { return &j.Cluster },
	func(j *Job) *uint32 { return &j.Proc },
	func(j *Job) *uint32 { return &j.QDate },
}

// valid reports whether n jobs can be unpacked: their schedds exist, and their differences are numbers of variable
// length.
func (p *packedJobs) valid(n int) bool {
	b := p.Packed
	for i := range (1 + len(jobColumns)) * n {
		v, size := binary.Uvarint(b)
		if size <= 0 || i < n && v >= uint64(len(p.Schedds)) {
			return false
		}
		b = b[size:]
	}
	return len(b) == 0
}

// unpack reads n jobs.
func (p *packedJobs) unpack(n int) []Job {
	b := p.Packed
	jobs, of := make([]Job, n), make([]uint64, n)
	for i := range jobs {
		v, size := binary.Uvarint(b)
		of[i], b = v, b[size:]
		jobs[i].Schedd = p.Schedds[v]
	}
	before := make([]uint32, len(p.Schedds))
	for _, column := range jobColumns {
		clear(before)
		for i := range jobs {
			v, size := binary.Varint(b)
			b = b[size:]
			before[of[i]] += uint32(v)
			*column(&jobs[i]) = before[of[i]]
		}
	}
	return jobs
}

// Jobs are the jobs of a day's claims that give a state, by status.
type Jobs struct {
	day  *Day
	from []uint32 // the first job of each status
	jobs []Job
}

// Jobs reads the jobs of the day's claims. They are not kept.
func (d *Day) Jobs() *Jobs {
	j := &Jobs{day: d, from: make([]uint32, len(d.statuses))}
	n := uint32(0)
	for s := range d.statuses {
		j.from[s] = n
		n += d.claimsOf(&d.statuses[s])
	}
	j.jobs = d.jobs.unpack(int(n))
	return j
}

// Of returns the job of a side's row of a status, none if it is not Claimed.
func (j *Jobs) Of(status uint32, side pool.Side) Job {
	s := &j.day.statuses[status]
	row, at := s.Primary, j.from[status]
	if side == pool.Backfill {
		row = s.Backfill
		if j.day.rows[s.Primary].State == pool.Claimed {
			at++
		}
	}
	if j.day.rows[row].State != pool.Claimed {
		return Job{}
	}
	return j.jobs[at]
}

// claimed is the number of rows of statuses that are Claimed.
func (d *Day) claimed() (n int) {
	for s := range d.statuses {
		n += int(d.claimsOf(&d.statuses[s]))
	}
	return n
}

func (d *Day) claimsOf(s *statusRows) (n uint32) {
	if d.rows[s.Primary].State == pool.Claimed {
		n++
	}
	if d.rows[s.Backfill].State == pool.Claimed {
		n++
	}
	return n
}
