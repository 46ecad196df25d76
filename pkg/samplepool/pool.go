package samplepool

import (
	"context"

	"github.com/chtc/gpureports/pkg/pool"
)

const maxGPUs = 16 // of a machine

// Machine is an execute machine of the pool.
type Machine struct {
	Name      string
	Ownership pool.Ownership // ResearcherOwned machines are prioritized, CHTCOwned ones stand in chtc_owned
	Device    string         // GPUs_DeviceName
	MemoryMB  int            // GPUs_GlobalMemoryMb, MiB
	GPUs      []string       // ids
	Projects  string         // PrioritizedProjects
	Backfill  bool           // it has backfill slots
	Excluded  bool           // masked_hosts.yaml excludes it
}

// Pool is a made-up pool. It is safe for concurrent use.
type Pool struct {
	options Options
}

// New makes a pool; an error says which option is impossible.
func New(o Options) (*Pool, error) {
	if _, err := o.check(); err != nil {
		return nil, err
	}
	return &Pool{options: o}, nil
}

// Options are the options that the pool was made with.
func (p *Pool) Options() Options { return p.options }

// Machines lists the pool's machines.
func (p *Pool) Machines() []Machine { return nil }

// Truth is what really happened.
func (p *Pool) Truth(ctx context.Context) (*Truth, error) { return nil, nil }

// Write writes everything (WriteSnapshots, WriteAds, WriteTruth) into dir.
func (p *Pool) Write(ctx context.Context, dir string) error { return nil }

// WriteSnapshots writes gpu_state_YYYY-MM.db, chtc_owned and masked_hosts.yaml into dir; a file that exists is an error.
func (p *Pool) WriteSnapshots(ctx context.Context, dir string) error { return nil }

// WriteAds writes jobs_history_legacy.jsonl, jobs_history_refactored.jsonl, jobs_epochs.jsonl and jobs.db into dir.
func (p *Pool) WriteAds(ctx context.Context, dir string) error { return nil }

// WriteTruth writes truth.jsonl, truth_available.jsonl and truth_snapshots.txt into dir.
func (p *Pool) WriteTruth(ctx context.Context, dir string) error { return nil }
