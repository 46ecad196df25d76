// Package facts adds up the figures of one pool in each full hour, as documents that can be added up over hours, groups
// and pools: averages and shares are quotients of such sums (methodology sections 5 and 6).
package facts

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/utilization"
)

// Version of the documents. Those of other versions are refused.
const Version = 4

// Kinds of documents.
const (
	KindHour      = "hour"      // coverage by the pool's snapshots: one document per hour
	KindGPUs      = "gpus"      // by group: GPU-slices by state, and GPU-snapshots of the backfill pool
	KindUsers     = "users"     // by group and user: claimed GPU-slices by the projects of jobs, and runs
	KindEvictions = "evictions" // by group and user: runs that began in one hour, and were evicted in another
	KindWaits     = "waits"     // waits, by user and request
	KindPool      = "pool"      // the checkpoint of a pool's publishing
)

// Fact is a document: the sums of a pool in a full hour of its zone, of one group. Fields that are zero are left out.
type Fact struct {
	Pool string `json:"pool"`
	Kind string `json:"kind"`
	Hour int64  `json:"hour"` // its beginning, in ms

	*Coverage
	*Group
	Project *string `json:"project,omitempty"` // the machine's, or the waiting jobs'
	User    *string `json:"user,omitempty"`
	// JobProject is the list of projects of the jobs that claim the GPU-slices; nil: it is not known, and for runs.
	JobProject *string `json:"jobProject,omitempty"`
	*GPUs
	*Usage
	*Backfill
	*Evicted
	*evictions.Eviction
	*evictions.Links
	*backfill.Occupancy
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

// Group is the key by which GPU-slices are counted. Texts are as the pool stores them; "" if there is none.
type Group struct {
	Category  string `json:"category"` // its key
	Slots     string `json:"slots"`
	Device    string `json:"device"`
	Memory    string `json:"memory"`
	Tier      string `json:"tier"`
	Ownership string `json:"ownership"`
	Project   string `json:"-"` // a field of the fact
}

// GPUs are sums of GPU-slices by category. A user has claimed ones only.
type GPUs struct {
	Claimed   float64 `json:"claimed,omitempty"`
	Unclaimed float64 `json:"unclaimed,omitempty"`
	Drained   float64 `json:"drained,omitempty"`
	Other     float64 `json:"other,omitempty"`
	Free      float64 `json:"free,omitempty"`
	Prevented float64 `json:"prevented,omitempty"`
}

// Sums of query types that would have the same name.
type (
	// Usage is the usage by runs on primary and backfill slots (methodology section 13). The runs of a window are those
	// that began in its hours, and those that were carried into its first one.
	Usage = utilization.Hourly
	// Backfill has the figures of backfill runs (methodology section 8).
	Backfill = evictions.Hourly
	// Waits has the sums over the waits of jobs (methodology section 14): by where they began and ended, and waiting jobs
	// and GPUs times the covered hours.
	Waits = demand.Hourly
)

// Request is the key by which waiting jobs are counted, in addition to their user.
type Request struct {
	Project   string `json:"-"` // a field of the fact
	Schedd    string `json:"schedd"`
	GPUs      string `json:"gpus"`
	GPUMemory string `json:"gpuMemory"`
}

// Evicted is the key of a fact about evictions, in addition to the group and the hour in which they happened.
type Evicted struct {
	Cause    string `json:"cause"`
	Evidence string `json:"evidence"`
	Saved    int64  `json:"saved"` // the hour in which the jobs last saved their work, or the runs began, in ms
	Began    int64  `json:"began"` // the hour in which the runs began, in ms
}

// ClassFields are the names of GPUs' fields, by class.
var ClassFields = [counts.Classes]string{counts.Claimed: "claimed", counts.Unclaimed: "unclaimed",
	counts.Drained: "drained", counts.OtherState: "other", counts.Free: "free", counts.Prevented: "prevented"}

// ID is the document's id: that of the same pool, hour and group is always the same.
func (f *Fact) ID() string {
	name := fmt.Sprintf("%q %s %d", f.Pool, f.Kind, f.Hour)
	if f.Group != nil {
		name += fmt.Sprintf(" %q", *f.Group)
	}
	if f.User != nil {
		name += fmt.Sprintf(" %q", *f.User)
	}
	if f.JobProject != nil {
		name += fmt.Sprintf(" of %q", *f.JobProject)
	}
	if f.Evicted != nil {
		name += fmt.Sprintf(" %q %q %d %d", f.Cause, f.Evidence, f.Evicted.Saved, f.Began)
	}
	if f.Request != nil {
		name += fmt.Sprintf(" %q", *f.Request)
	}
	return hashed(name)
}

// HashGPU is the hash of a GPU in [Seen].
func HashGPU(machine, gpu string) string { return hashed(fmt.Sprintf("%q %q", machine, gpu)) }

func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Checkpoint is the document that records the published range of a pool. Times are in ms. Hours in [Since, Through)
// are published.
type Checkpoint struct {
	Pool            string `json:"pool"`
	Kind            string `json:"kind"`
	Version         int    `json:"version"`
	Zone            string `json:"zone"` // the hours'
	SliceMinutes    int    `json:"sliceMinutes"`
	Since           int64  `json:"since"`
	CompleteThrough int64  `json:"completeThrough"` // earlier hours are of finished days
	Through         int64  `json:"through"`
	// Filling is the rest of an interrupted run over earlier hours; nil if there is none.
	Filling *Filling `json:"filling,omitempty"`
	// Seen are GPUs of the snapshots that the facts are derived from. They distinguish the pool from another one of the
	// same name.
	Seen *Seen `json:"seen,omitempty"`
}

// Filling records an unfinished publishing of earlier hours: those in [Since, Next) are published, and it resumes at
// Next. Times are in ms.
type Filling struct {
	Since int64 `json:"since"`
	Next  int64 `json:"next"`
}

// Seen are some of the GPUs that had snapshots on the UTC day of At, in ms, as hashes.
type Seen struct {
	At   int64    `json:"at"`
	GPUs []string `json:"gpus"`
}

// ID is the document's id.
func (c *Checkpoint) ID() string { return hashed(fmt.Sprintf("%q %s", c.Pool, KindPool)) }

// Index is the index that holds the facts of an hour: one per month (UTC) under the alias.
func Index(alias string, hour int64) string {
	return alias + "-" + pool.Time(hour*millisecond).Format("2006-01")
}

// CheckpointIndex is the index of checkpoints, under the same alias.
func CheckpointIndex(alias string) string { return alias + "-pools" }

const millisecond = pool.Second / 1000

// Millis is a time in ms.
func Millis(t pool.Micros) int64 { return t / millisecond }

// Micros is a time given in ms.
func Micros(ms int64) pool.Micros { return ms * millisecond }

// Template is the index template of an alias: mapping, settings and the alias itself. Written documents become visible
// when the publisher refreshes the index, and not periodically, so that readers never see half a day.
func Template(alias string, shards int) ([]byte, error) {
	return json.Marshal(map[string]any{
		"index_patterns": []string{alias + "-*"},
		"priority":       200,
		"version":        Version,
		"template": map[string]any{
			"aliases": map[string]any{alias: map[string]any{}},
			"settings": map[string]any{"index": map[string]any{
				"codec": "best_compression", "refresh_interval": "-1", "number_of_shards": shards,
				"sort": map[string]any{"field": []string{"pool", "hour"}, "order": []string{"asc", "asc"}},
			}},
			"mappings": map[string]any{"dynamic": "strict", "properties": fields()},
		},
	})
}

// fields are the types of all fields of documents; others are refused. Facts are found by pool, kind and time; the
// other fields are only told apart and added up, for which no index is needed: it would take a third of the time of
// writing.
func fields() map[string]any {
	found, date := map[string]any{"type": "keyword"}, map[string]any{"type": "date", "format": "epoch_millis"}
	all := map[string]any{"pool": found, "kind": found, "hour": date, "saved": date, "began": date, "since": date,
		"completeThrough": date, "through": date}
	addFields(all, reflect.TypeFor[Fact]())
	addFields(all, reflect.TypeFor[Checkpoint]())
	return all
}

// types are Elasticsearch's.
var types = map[reflect.Kind]string{reflect.String: "keyword", reflect.Float64: "double",
	reflect.Int: "long", reflect.Int64: "long"}

// addFields adds the fields of a struct, as JSON has them, that are not there yet.
func addFields(to map[string]any, of reflect.Type) {
	for _, field := range reflect.VisibleFields(of) {
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case len(field.Index) > 1 || name == "-" || to[name] != nil:
		case field.Anonymous:
			addFields(to, kind)
		case kind.Kind() == reflect.Struct: // read as a whole
			to[name] = map[string]any{"type": "object", "enabled": false}
		default:
			to[name] = map[string]any{"type": types[kind.Kind()], "index": false}
		}
	}
}
