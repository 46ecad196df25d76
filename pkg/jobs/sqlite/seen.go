package sqlite

import (
	"sync"
	"unique"

	"github.com/chtc/gpureports/pkg/jobs"
)

// seen remembers of rows that were parsed where and when their runs began, as long as the file stays as it is: so that
// lookups by machine, which no index helps, read no row for nothing that another lookup has read.
type seen struct {
	mu       sync.Mutex
	revision string // of the file
	runs     map[int64]run
}

// run is what lookups by machine tell ads apart by.
type run struct {
	machine      unique.Handle[string]
	start, ended jobs.Date // JobCurrentStartDate and EpochWriteDate
	kind         jobs.Kind
}

// mostSeen bounds the rows that are remembered, to some 35 MB.
const mostSeen = 500_000

func (s *seen) note(revision string, row int64, label jobs.Label) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revision != revision {
		s.revision, s.runs = revision, map[int64]run{}
	}
	if len(s.runs) < mostSeen {
		s.runs[row] = run{unique.Make(label.Machine), label.JobCurrentStartDate, label.EpochWriteDate,
			label.Kind}
	}
}

// label returns what is known of a row's label: all but its job.
func (s *seen) label(revision string, row int64) (label jobs.Label, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revision != revision {
		return jobs.Label{}, false
	}
	r, known := s.runs[row]
	if !known {
		return jobs.Label{}, false
	}
	return jobs.Label{Kind: r.kind, Machine: r.machine.Value(), JobCurrentStartDate: r.start,
		EpochWriteDate: r.ended}, true
}
