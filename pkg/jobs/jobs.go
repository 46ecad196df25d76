// Package jobs reads job ads: what HTCondor's access points recorded about jobs and their runs, as adstash
// stores them in Elasticsearch (elasticsearch/) or as a small SQLite job file (sqlite/).
//
// An [Ad] is one document, normalised. A [Source] looks ads up; both sources pass the suite in jobstest/.
// [Cache] keeps the ads of finished runs in memory.
package jobs

import (
	"context"
	"strconv"
	"time"
)

// Wanted is a job whose ads are asked for.
type Wanted struct {
	Job string // GlobalJobId, exactly as stored: schedd#cluster.proc#qdate
	// LastSeen is the newest snapshot that shows a run of the job; zero = not known. It lets a [Cache] decide whether the
	// ads it holds can already describe that run. Other sources ignore it.
	LastSeen time.Time
}

// MachineDay is a machine on a UTC day, counted from 1970-01-01. Whole days, because what a window that moves on asks
// for is then known already.
type MachineDay struct {
	Machine string
	Day     int32
}

// Start is the day's first second.
func (d MachineDay) Start() time.Time { return time.Unix(int64(d.Day)*secondsOfDay, 0).UTC() }

// End is the day's last second: dates of ads are whole seconds.
func (d MachineDay) End() time.Time { return time.Unix(int64(d.Day+1)*secondsOfDay-1, 0).UTC() }

const secondsOfDay = 24 * 60 * 60

// zeroByte parts the texts of a Key. No GlobalJobId holds one.
const zeroByte = "\x00"

// Key is d as one text.
func (d MachineDay) Key() string { return d.Machine + zeroByte + strconv.Itoa(int(d.Day)) }

// EpochDay asks for the runs that began on a machine on a UTC day and lasted no longer than Longest; 0 = any.
type EpochDay struct {
	MachineDay
	Longest time.Duration
}

// Allows reports whether the run of an epoch ad lasted no longer than is asked for.
func (d EpochDay) Allows(l Label) bool {
	return d.Longest <= 0 || l.EpochWriteDate.Since(l.JobCurrentStartDate) <= d.Longest
}

// Key is d as one text.
func (d EpochDay) Key() string {
	return d.MachineDay.Key() + zeroByte + strconv.Itoa(int(d.Longest.Seconds()))
}

// MaxEpochs is the number of ads that one lookup of [Source.Epochs] holds at most.
const MaxEpochs = 500_000

// Source looks job ads up. Its methods may be called at the same time from several goroutines.
//
// Errors are [pool.SourceError] (the store, with its address and a remedy) or ctx's own error, wrapped. An error means
// no result at all; an answer from which something is missing is a result with notices.
type Source interface {
	// Ads returns all ads of the given jobs. Result.Ads has one entry for each entry of wanted, in its order: nil for
	// a job without an ad. A job may be given more than once. None given: an empty Result, the store is not asked.
	Ads(ctx context.Context, wanted []Wanted) (Result, error)

	// AdsOnMachines returns the ads whose run (JobCurrentStartDate) began on a machine on a UTC day. It serves runs that
	// the snapshots show without a GlobalJobId (methodology section 9, step 2). Result.Ads has one entry for each of the
	// given, in their order. None given: an empty Result, the store is not asked.
	AdsOnMachines(ctx context.Context, days []MachineDay) (Result, error)

	// Epochs returns the epoch ads of short runs on machines, whatever their job: those that no snapshot may show
	// (methodology section 8). Of an ad, JobCurrentStartDate gives the day, and EpochWriteDate the length. No machine and
	// day may be given with two lengths. Result.Ads has one entry for each of the given, in their order. At most MaxEpochs
	// ads are held; a notice says that some were left out. None given: an empty Result, the store is not asked.
	Epochs(ctx context.Context, days []EpochDay) (Result, error)

	// Newest returns the newest RecordTime of all ads (of an epoch ad it equals EpochWriteDate); zero when there is
	// no ad at all.
	Newest(ctx context.Context) (time.Time, error)

	// Health asks the store what it is and holds, for the health check.
	Health(ctx context.Context) (Health, error)

	// Close frees what the source holds. No other method may be called after it.
	Close() error
}

// Limited returns a context that ends after three quarters of the time until ctx's deadline, with ctx at the latest:
// who gives up a lookup then can still answer without job ads.
func Limited(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)*3/4)
}

// Result is the answer of a lookup.
type Result struct {
	// Ads of each job, or machine and day, asked for. Those of one entry are sorted by [Compare] and differ in Kind,
	// GlobalJobID or RecordTime: a document stored twice counts once. They are shared: read only.
	Ads [][]Ad
	// Partial: documents may be missing (shards failed, time ran out, a limit was hit). The notices say why.
	Partial bool
	// Notices are sentences for the user, with numbers. Nil when there is nothing to say.
	Notices []string
	// Holds reports whether the same question would have the same answer without asking the store. Nil: only the store
	// can tell.
	Holds func() bool
	// Standing says of each entry of Ads how long it answers its question. Nil: only the store can tell.
	Standing []Standing
}

// Standing is how long an answer about one job, or one machine and day, holds.
type Standing struct {
	Until time.Time // then it is time to ask again
	// Version is that of the ads: as long as it is the same, they are. Different answers have different versions.
	Version uint64
	Remark  *Remark // nil when the answer was complete and without notices
}

// Remark is what an answer said about itself; all that it answered share it.
type Remark struct {
	Partial bool
	Notices []string
}

// Remembering is a Source that knows which of its answers have been replaced.
type Remembering interface {
	Source
	// Since returns what has changed since a mark that an earlier call returned.
	Since(mark Mark) Changes
}

// Mark is a moment in the life of a [Remembering] source. The zero mark is before all others.
type Mark struct {
	source   string
	position uint64
}

// Changes are what has changed since a mark.
type Changes struct {
	Mark Mark      // of now
	Now  time.Time // by the source's clock
	// Of the answers that were replaced by different ones: GlobalJobIds, and the Keys of machines and days.
	Jobs, Days []string
	// Lost: they are not known, anything may have changed.
	Lost bool
}

// Health describes a store that answers.
type Health struct {
	Store   string    // what it is and where, without credentials
	Ads     int64     // number of documents
	Newest  time.Time // as Source.Newest
	Notices []string  // what limits its use, each with a remedy
}
