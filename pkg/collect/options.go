// Package collect takes snapshots of a pool: it runs condor_status and appends the state of every GPU slot to the month
// files of methodology section 1. It also polls the access points' queues with condor_q, and records the idle and
// running jobs that request GPUs in the month files of section 14. No other package writes these files.
//
// A snapshot is written as a whole, in one transaction or by one rename, or not at all. The result of each run is in
// the run log, collector_runs.db, next to the month files; it shows the reason for a gap in the data.
package collect

import (
	"cmp"
	"log/slog"
	"regexp"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

// Options define the data to collect and their destination. Zero values, except of SnapshotDir, are the defaults.
type Options struct {
	SnapshotDir  string        `help:"Directory of the month files; with --to, of the run log only." type:"existingdir" required:""`
	Pool         string        `help:"Collector (central manager) to query; default: the one in HTCondor's configuration." placeholder:"HOST"`
	CondorStatus string        `help:"The program condor_status; default: found in PATH." placeholder:"PATH"`
	Timezone     string        `help:"Time zone of the timestamps and months (IANA name; default UTC). Give the data source the same one." placeholder:"ZONE"`
	Format       string        `help:"Format of the month files: sqlite, or parquet, which takes a tenth of the space." enum:"sqlite,parquet" default:"sqlite"`
	Timeout      time.Duration `help:"How long condor_status and each condor_q may take." default:"2m"`

	Jobs             bool     `help:"Poll the access points for idle and running jobs that ask for GPUs, and write them to job_pressure_YYYY-MM.db or .parquet, instead of taking a snapshot."`
	Schedds          []string `help:"Access points to poll with --jobs; default: all that the pool's collector knows." name:"schedd" placeholder:"NAME"`
	ProjectAttribute string   `help:"Attribute of job ads that holds a job's projects, with --jobs, such as ProjectName or AcctGroup." default:"ChtcProjects" placeholder:"NAME"`
	CondorQ          string   `help:"The program condor_q; default: found in PATH." placeholder:"PATH"`

	To Target `embed:""`

	Log *slog.Logger `kong:"-"` // nil: silent

	maxOutput int              `kong:"-"` // bytes that condor_status may print
	bucket    *bucket.Bucket   `kong:"-"` // where To leads; nil: files are written
	zone      *time.Location   `kong:"-"`
	now       func() time.Time `kong:"-"`
	away      time.Duration    `kong:"-"` // as that of a queuePoll
}

// Target is a bucket that snapshots and polls go to, in place of month files. Its keys come from the environment or
// from the machine: on a command line, all users of the machine would see them.
type Target struct {
	URL       string `name:"to" help:"Bucket for the snapshots, one object each, merged into one object per day when the day is over, and for polls (job_pressure_YYYY-MM.parquet). The keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or from the machine." placeholder:"s3://BUCKET/PREFIX"`
	Endpoint  string `name:"bucket-endpoint" help:"URL of the S3 server; default: Amazon's." placeholder:"URL"`
	Region    string `name:"bucket-region" help:"Region of the bucket." placeholder:"REGION"`
	PathStyle bool   `name:"bucket-path-style" help:"Put the bucket's name in the path, as Ceph needs unless its DNS has a wildcard."`
	CA        []byte `name:"bucket-ca" help:"File of CA certificates (PEM) for the server, in addition to the system's." type:"filecontent" placeholder:"FILE"`
}

// attributeNames is the form of the names of attributes.
var attributeNames = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const (
	defaultProjectAttribute = "ChtcProjects"
	// MinEvery is the shortest interval of a service: snapshots within a minute count as one.
	MinEvery = 2 * time.Minute
)

// prepare checks the options, fills in the defaults and opens the bucket.
func (o Options) prepare() (_ Options, err error) {
	if o.zone, err = localtime.Location(o.Timezone); err != nil {
		return o, err
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.CondorStatus, o.CondorQ = cmp.Or(o.CondorStatus, "condor_status"), cmp.Or(o.CondorQ, "condor_q")
	o.Format, o.Timeout = cmp.Or(o.Format, "sqlite"), cmp.Or(o.Timeout, 2*time.Minute)
	o.maxOutput, o.Log = cmp.Or(o.maxOutput, pool.MostOutput), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if len(o.Schedds) > 0 && !o.Jobs {
		return o, pool.BadQuery("collect: access points are named, but they are polled with --jobs only")
	}
	o.ProjectAttribute = cmp.Or(o.ProjectAttribute, defaultProjectAttribute)
	if o.ProjectAttribute != defaultProjectAttribute && !o.Jobs {
		return o, pool.BadQuery("collect: --project-attribute is of jobs: it goes with --jobs only")
	}
	if !attributeNames.MatchString(o.ProjectAttribute) {
		return o, pool.BadQuery("collect: %q is not the name of an attribute of job ads: use letters, digits and _",
			o.ProjectAttribute)
	}
	if o.Timeout < 0 {
		return o, pool.BadQuery("collect: a timeout of %s is impossible", o.Timeout)
	}
	if o.To.URL != "" {
		o.Format = "parquet" // polls are files there too
		o.bucket, err = bucket.Open(bucket.Options{URL: o.To.URL, Endpoint: o.To.Endpoint, Region: o.To.Region,
			PathStyle: o.To.PathStyle, CA: string(o.To.CA)})
	}
	return o, err
}
