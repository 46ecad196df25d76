// Package collect takes snapshots of a pool: it runs condor_status and appends what every GPU slot looks like to the
// month files of methodology section 1. It also polls the access points' queues with condor_q, and keeps the idle jobs
// that ask for GPUs in the month files of section 14. It is the only package that writes them.
//
// A snapshot is written as a whole, in one transaction or by one rename, or not at all. What each run did is in the
// run log, collector_runs.db, beside the month files: a gap in the data has its reason there.
package collect

import (
	"log/slog"
	"os"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

// Options say what is collected and where it goes. The zero values of all but SnapshotDir are the defaults.
type Options struct {
	SnapshotDir  string        `help:"Directory of the month files gpu_state_YYYY-MM.db or .parquet; with --to, of the run log only." type:"existingdir" required:""`
	Pool         string        `help:"Collector (central manager) to ask; default: the one of HTCondor's configuration." placeholder:"HOST"`
	CondorStatus string        `help:"The program condor_status; default: found in PATH." placeholder:"PATH"`
	Timezone     string        `help:"Time zone of the timestamps and months (IANA name; default UTC). Give the data source the same one." placeholder:"ZONE"`
	Format       string        `help:"Format of the month files: sqlite, or parquet, which takes a tenth of the room." enum:"sqlite,parquet" default:"sqlite"`
	Timeout      time.Duration `help:"How long condor_status may take, and each condor_q." default:"2m"`

	Jobs    bool     `help:"Poll the access points for idle jobs that ask for GPUs, into job_pressure_YYYY-MM.db, instead of taking a snapshot."`
	Schedds []string `help:"Access points to poll with --jobs; default: all that the pool's collector knows." name:"schedd" placeholder:"NAME"`
	CondorQ string   `help:"The program condor_q; default: found in PATH." placeholder:"PATH"`

	To Target `embed:""`

	Log *slog.Logger `kong:"-"` // nil: silent

	maxOutput int `kong:"-"` // bytes that condor_status may print
}

const (
	defaultTimeout = 2 * time.Minute
	// defaultMaxOutput is some 300,000 slots.
	defaultMaxOutput = 256 << 20
	// MinEvery is the shortest interval of a service: snapshots within a minute count as one.
	MinEvery = 2 * time.Minute
)

// prepare checks the options and fills in the defaults.
func (o Options) prepare() (Options, *time.Location, error) {
	if o.SnapshotDir == "" {
		return o, nil, pool.BadQuery("collect: no snapshot directory is given")
	}
	if info, err := os.Stat(o.SnapshotDir); err != nil {
		return o, nil, pool.SourceError("snapshot directory: %w: create it, writable for the user that collects", err)
	} else if !info.IsDir() {
		return o, nil, pool.SourceError("snapshot directory %s is no directory", o.SnapshotDir)
	}
	zone, err := localtime.Location(o.Timezone)
	if err != nil {
		return o, nil, err
	}
	if o.CondorStatus == "" {
		o.CondorStatus = "condor_status"
	}
	if o.CondorQ == "" {
		o.CondorQ = "condor_q"
	}
	if len(o.Schedds) > 0 && !o.Jobs {
		return o, nil, pool.BadQuery("collect: access points are named, but they are polled with --jobs only")
	}
	if o.Format == "" {
		o.Format = "sqlite"
	}
	if _, known := formats[o.Format]; !known {
		return o, nil, pool.BadQuery("collect: unknown format %q: use sqlite or parquet", o.Format)
	}
	if err := o.To.check(o.Jobs); err != nil {
		return o, nil, err
	}
	if o.Timeout < 0 {
		return o, nil, pool.BadQuery("collect: a timeout of %s is impossible", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.maxOutput == 0 {
		o.maxOutput = defaultMaxOutput
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, zone, nil
}
