package samplepool

import (
	"context"
	"iter"
	"time"
)

// Row is one row of gpu_state (methodology section 1): one GPU id of one slot. Empty texts are NULL in the file, except
// PrioritizedProjects, which is NULL where ProjectsNull says so.
type Row struct {
	Name                string
	AssignedGPUs        string // the id; the methodology's GPU is (Machine, AssignedGPUs)
	AvailableGPUs       string
	State               string
	DeviceName          string
	MemoryMB            int // MiB; 0: NULL
	PrioritizedProjects string
	ProjectsNull        bool
	AverageUsage        float64 // 0: NULL
	Machine             string
	PreventJobsReason   string // not in files older than Options.NewColumns
	RemoteOwner         string
	GlobalJobID         string
}

// Snapshot is one run of the collector.
type Snapshot struct {
	Time      time.Time // when it really was, UTC
	Timestamp string    // the column: YYYY-MM-DD HH:MM:SS.ffffff in the collector's local time
	Month     string    // of the file that holds it: 2025-11 for gpu_state_2025-11.db
	Rows      []Row     // in file order; valid until the next snapshot is asked for
}

// Snapshots yields the collector's runs in time order, as the month files hold them. It ends with an error only when ctx does.
func (p *Pool) Snapshots(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {}
}
