package timeline

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"

	"github.com/chtc/gpureports/pkg/pool"
)

// packedJobs are the jobs of a day's claims, compressed, in columns: the place of the access point in Schedds, cluster,
// proc, and the time of queueing. They are nearly half of a day on disk, and few kinds ask for them: Day.Jobs reads them
// each time.
//
// They are in the order of statuses, the primary one first for each.
type packedJobs struct {
	Schedds []Symbol
	Packed  []byte
}

// packer and unpacker are safe for concurrent use by EncodeAll and DecodeAll.
var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(1<<28))
)

func pack(jobs []Job) packedJobs {
	n := len(jobs)
	var schedds pool.Numbered[Symbol]
	numbers := make([]uint32, 4*n)
	for i, j := range jobs {
		numbers[i] = uint32(schedds.Number(j.Schedd))
		numbers[n+i], numbers[2*n+i], numbers[3*n+i] = j.Cluster, j.Proc, j.QDate
	}
	bytes, _ := binary.Append(nil, binary.LittleEndian, numbers) // never fails for numbers
	return packedJobs{schedds.All, packer.EncodeAll(bytes, nil)}
}

// unpack reads n jobs; ok is false if there are not as many, or one has no access point.
func (p *packedJobs) unpack(n int) (jobs []Job, ok bool) {
	bytes, err := unpacker.DecodeAll(p.Packed, nil)
	numbers := make([]uint32, 4*n)
	if err != nil || len(bytes) != binary.Size(numbers) {
		return nil, false
	}
	_, _ = binary.Decode(bytes, binary.LittleEndian, numbers) // as many as there are bytes
	jobs = make([]Job, n)
	for i := range jobs {
		if int(numbers[i]) >= len(p.Schedds) {
			return nil, false
		}
		jobs[i] = Job{p.Schedds[numbers[i]], numbers[n+i], numbers[2*n+i], numbers[3*n+i]}
	}
	return jobs, true
}

// Jobs are the jobs of a day's claims that give a state, by status and side.
type Jobs [][2]Job

// Jobs reads the jobs of the day's claims. They are not kept.
func (d *Day) Jobs() Jobs {
	all := make(Jobs, len(d.statuses))
	jobs, _ := d.jobs.unpack(d.claimed()) // a day that was read from disk or a bucket is valid
	for s, rows := range d.statuses {
		for side, row := range [2]uint32{rows.Primary, rows.Backfill} {
			if d.rows[row].State == pool.Claimed {
				all[s][side], jobs = jobs[0], jobs[1:]
			}
		}
	}
	return all
}

// Of returns the job of a side's row of a status, none if it is not Claimed.
func (j Jobs) Of(status uint32, side pool.Side) Job { return j[status][side] }

// claimed is the number of rows of statuses that are Claimed.
func (d *Day) claimed() (n int) {
	for _, rows := range d.statuses {
		for _, row := range [2]uint32{rows.Primary, rows.Backfill} {
			if d.rows[row].State == pool.Claimed {
				n++
			}
		}
	}
	return n
}

// Claims calls look with the job of each claim in the window, at each snapshot from which on a GPU's status stays the
// same: at least at the first snapshot of each UTC day that shows the job.
func (v *View) Claims(w pool.Window, look func(t pool.Micros, job Job)) {
	for _, d := range v.Days {
		if len(d.Times) == 0 || d.Times[0] > w.To || d.Times[len(d.Times)-1] < w.From {
			continue
		}
		jobs := d.Jobs()
		for i := range d.GPUs() {
			first, statuses := d.Spans(i)
			for k, number := range statuses {
				t := d.Times[first[k]]
				if !w.Contains(t) {
					continue
				}
				for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
					if job := jobs.Of(number, side); !job.IsNone() {
						look(t, job)
					}
				}
				for _, claim := range d.claims(number) {
					if !claim.Job.IsNone() {
						look(t, claim.Job)
					}
				}
			}
		}
	}
}

// Queued is when the job was put into its queue, by its access point's clock (htcondor.md: qdate); ok is false for a
// GlobalJobId of another form.
func (j Job) Queued() (t pool.Micros, ok bool) {
	return pool.Micros(j.QDate) * pool.Second, j.QDate != 0 && j.Cluster != raw
}
