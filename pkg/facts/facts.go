// Package facts adds up what one pool did in each full hour, as documents of which sums over hours, groups and pools
// are made: averages and shares are quotients of such sums (methodology sections 5 and 6).
package facts

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/pool"
)

// Version of the documents. Facts of different versions are not mixed.
const Version = 2

// Kinds of documents.
const (
	KindHour      = "hour"      // what the pool's snapshots cover: one document an hour
	KindGPUs      = "gpus"      // of a group: GPU-slices by state, and GPU-snapshots of the backfill pool
	KindUsers     = "users"     // of a group and user: claimed GPU-slices, and runs
	KindEvictions = "evictions" // of a group and user: runs that began in one hour, and were evicted in another
	KindWaits     = "waits"     // of a user and what their jobs ask for: waits
	KindPool      = "pool"      // the checkpoint: what is published of a pool
)

// Fact is a document: what a pool adds up in a full hour of its zone, of one group. Fields that are zero are left out.
type Fact struct {
	Pool     string `json:"pool"`
	Kind     string `json:"kind"`
	Hour     int64  `json:"hour"`     // its beginning, in ms
	Complete bool   `json:"complete"` // the UTC day of its end is finished: no collector appends to it any more

	*Coverage
	*Group
	Project *string `json:"project,omitempty"` // of the machine, or of the waiting jobs
	User    *string `json:"user,omitempty"`
	*GPUs
	*Usage
	*Backfill
	*Evicted
	*Eviction
	*Links
	*Occupied
	*Request
	*Waits
}

// Coverage is N and D of an hour, and its snapshots.
type Coverage struct {
	Slices       int     `json:"slices"`
	CoveredHours float64 `json:"coveredHours"` // 0 to 1
	Snapshots    int     `json:"snapshots"`
	PolledHours  float64 `json:"polledHours,omitempty"` // covered by polls of the queues, 0 to 1
}

// Group is what GPU-slices are told apart by. Texts are as the pool stores them; "" is none.
type Group struct {
	Category  string `json:"category"` // its key
	Slots     string `json:"slots"`
	Device    string `json:"device"`
	Memory    string `json:"memory"`
	Tier      string `json:"tier"`
	Ownership string `json:"ownership"`
	Project   string `json:"-"` // a field of the fact
}

// GPUs are sums of GPU-slices by what they are counted as. Of a user there are claimed ones only.
type GPUs struct {
	Claimed   float64 `json:"claimed,omitempty"`
	Unclaimed float64 `json:"unclaimed,omitempty"`
	Drained   float64 `json:"drained,omitempty"`
	Other     float64 `json:"other,omitempty"`
	Free      float64 `json:"free,omitempty"`
	Prevented float64 `json:"prevented,omitempty"`
}

// Usage is what runs on primary and backfill slots did, in GPU-hours (methodology section 13). The runs of a window are
// those that began in its hours, and those that were carried into its first one.
type Usage struct {
	Held     float64 `json:"held,omitempty"`
	Measured float64 `json:"measured,omitempty"`
	Busy     float64 `json:"busy,omitempty"`
	Idle     float64 `json:"idle,omitempty"`
	Begun    int     `json:"begun,omitempty"`
	Carried  int     `json:"carried,omitempty"`
}

// Backfill is what backfill runs did (methodology section 8): GPU-hours, runs by where they began, and runs that ended
// in the hour by outcome. Evictions have facts of their own.
type Backfill struct {
	GPUHours      float64 `json:"backfillHours,omitempty"`
	Begun         int     `json:"backfillBegun,omitempty"`
	Carried       int     `json:"backfillCarried,omitempty"`
	UnseenBegun   int     `json:"unseenBegun,omitempty"`
	UnseenCarried int     `json:"unseenCarried,omitempty"`
	Completed     int     `json:"completed,omitempty"`
	Removed       int     `json:"removed,omitempty"`
	Held          int     `json:"onHold,omitempty"`
	Lost          int     `json:"outOfSight,omitempty"`
	Ambiguous     int     `json:"ambiguous,omitempty"`
}

// Evicted says which evictions a fact is of, beside the group and the hour in which they happened.
type Evicted struct {
	Cause    string `json:"cause"`
	Evidence string `json:"evidence"`
	Began    int64  `json:"began"` // the hour in which the runs began, in ms
}

// Eviction is the number of evicted runs, and their GPU-hours: in the hour in which they began where that is another
// than the one of the eviction, in the one of the eviction, and in all. Between those hours they held so many GPUs.
type Eviction struct {
	Evictions int     `json:"evictions"`
	GPUs      int     `json:"evictedGpus"`
	First     float64 `json:"lostFirst,omitempty"`
	Last      float64 `json:"lostLast,omitempty"`
	Lost      float64 `json:"lost,omitempty"`
}

// Occupied is the GPU-snapshots of the backfill pool by state (methodology section 7).
type Occupied struct {
	Available int64 `json:"poolAvailable,omitempty"`
	Used      int64 `json:"poolUsed,omitempty"`
	Taken     int64 `json:"poolTaken,omitempty"`
	Other     int64 `json:"poolOther,omitempty"` // blocked, absent or unknown
}

// Request is what waiting jobs are told apart by, beside their user.
type Request struct {
	Project   string `json:"-"` // a field of the fact
	Schedd    string `json:"schedd"`
	GPUs      string `json:"gpus"`
	GPUMemory string `json:"gpuMemory"`
}

// Waits is what the waits of jobs add up to (methodology section 14): by where they began and ended, and waiting jobs
// and GPUs times the covered hours.
type Waits struct {
	Begun    int     `json:"waitsBegun,omitempty"`
	Carried  int     `json:"waitsCarried,omitempty"`
	Started  int     `json:"waitsStarted,omitempty"`
	Left     int     `json:"waitsLeft,omitempty"`
	Waited   float64 `json:"waited,omitempty"` // hours, of those that started
	JobHours float64 `json:"waitingJobHours,omitempty"`
	GPUHours float64 `json:"waitingGpuHours,omitempty"`
}

// Links is how many backfill runs of an hour have a job ad, of those that should.
type Links struct {
	LinkedBegun    int `json:"linkedBegun,omitempty"`
	LinkedCarried  int `json:"linkedCarried,omitempty"`
	CountedBegun   int `json:"countedBegun,omitempty"`
	CountedCarried int `json:"countedCarried,omitempty"`
	WithoutAds     int `json:"withoutAds,omitempty"` // 1: no job ads are used
}

// ClassFields are the names of GPUs' fields, by class.
var ClassFields = [counts.Classes]string{counts.Claimed: "claimed", counts.Unclaimed: "unclaimed",
	counts.Drained: "drained", counts.OtherState: "other", counts.Free: "free", counts.Prevented: "prevented"}

// ID is the document's id: that of the same pool, hour and group is always the same.
func (f *Fact) ID() string {
	name := make([]byte, 0, 256)
	text := func(before, text string) { name = strconv.AppendQuote(append(name, before...), text) }
	group := func(texts ...string) {
		before := " {"
		for _, t := range texts {
			text(before, t)
			before = " "
		}
		name = append(name, '}')
	}
	text("", f.Pool)
	name = append(append(append(name, ' '), f.Kind...), ' ')
	name = strconv.AppendInt(name, f.Hour, 10)
	if g := f.Group; g != nil {
		group(g.Category, g.Slots, g.Device, g.Memory, g.Tier, g.Ownership, g.Project)
	}
	if f.User != nil {
		text(" ", *f.User)
	}
	if e := f.Evicted; e != nil {
		text(" ", e.Cause)
		text(" ", e.Evidence)
		name = strconv.AppendInt(append(name, ' '), e.Began, 10)
	}
	if r := f.Request; r != nil {
		group(r.Project, r.Schedd, r.GPUs, r.GPUMemory)
	}
	return hashed(name)
}

func hashed(name []byte) string {
	sum := sha256.Sum256(name)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Checkpoint is the document that says what is published of a pool. Times are in ms. Hours in [Since, Through) are
// there.
type Checkpoint struct {
	Pool            string `json:"pool"`
	Kind            string `json:"kind"`
	Version         int    `json:"version"`
	Zone            string `json:"zone"` // that of the hours
	SliceMinutes    int    `json:"sliceMinutes"`
	Since           int64  `json:"since"`
	CompleteThrough int64  `json:"completeThrough"` // earlier hours are of finished days
	Through         int64  `json:"through"`
	PublishedAt     int64  `json:"publishedAt"`
	// Written says what is there of each hour that may still change, by its beginning in ms.
	Written map[int64]Written `json:"written,omitempty"`
}

// Written is what was last written of an hour.
type Written struct {
	Documents int    `json:"documents"`
	Hash      string `json:"hash"` // of all documents and their ids
}

// ID is the document's id.
func (c *Checkpoint) ID() string { return hashed([]byte(fmt.Sprintf("%q %s", c.Pool, KindPool))) }

// Index is the index that holds the facts of an hour: one a month (UTC) behind the alias.
func Index(alias string, hour int64) string {
	return alias + "-" + pool.Time(hour*millisecond).Format("2006-01")
}

// CheckpointIndex is the index of checkpoints, behind the same alias.
func CheckpointIndex(alias string) string { return alias + "-pools" }

const millisecond = pool.Second / 1000

// Millis is a time in ms.
func Millis(t pool.Micros) int64 { return t / millisecond }

// Micros is a time given in ms.
func Micros(ms int64) pool.Micros { return ms * millisecond }
