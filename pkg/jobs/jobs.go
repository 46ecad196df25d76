// Package jobs reads job ads: the records of HTCondor's access points about jobs and their runs, as adstash stores them
// in Elasticsearch (elasticsearch/) or as a small SQLite job file (sqlite/).
//
// An [Ad] is one document, normalized. A [Source] looks ads up; both sources pass the suite in
// pkg/internal/dev/jobstest. [Cache] keeps the ads of finished runs in memory.
package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Wanted is a job whose ads are requested.
type Wanted struct {
	Job string // GlobalJobId, exactly as stored: schedd#cluster.proc#qdate
	// LastSeen is the newest snapshot that shows a run of the job; zero = not known. It lets a [Cache] decide whether the
	// ads it holds can already describe that run. Other sources ignore it.
	LastSeen time.Time
}

// Key is w as one text.
func (w Wanted) Key() string { return w.Job }

// End is the last moment that w is about.
func (w Wanted) End() time.Time { return w.LastSeen }

// MachineDay is a machine on a UTC day, counted from 1970-01-01. Whole days, because then a moving window finds its ads
// in the cache.
type MachineDay struct {
	Machine string
	Day     int32
	// Longest asks only for runs that lasted no longer, and whose end an ad gives; 0 = all runs.
	Longest time.Duration
}

// AnyLength asks for all runs whose end an ad gives.
const AnyLength time.Duration = math.MaxInt64

// Start is the day's first second.
func (d MachineDay) Start() time.Time { return time.Unix(int64(d.Day)*secondsOfDay, 0).UTC() }

// End is the day's last second: dates of ads are whole seconds.
func (d MachineDay) End() time.Time { return time.Unix(int64(d.Day+1)*secondsOfDay-1, 0).UTC() }

const secondsOfDay = 24 * 60 * 60

// Key is d as one text; a byte that no GlobalJobId holds separates its parts.
func (d MachineDay) Key() string {
	return d.Machine + "\x00" + strconv.Itoa(int(d.Day)) + "\x00" + strconv.Itoa(int(d.Longest.Seconds()))
}

// allows reports whether the run that an ad describes lasted no longer than wanted.
func (d MachineDay) allows(a *Ad) bool {
	end := a.RunEnd()
	return d.Longest == 0 || end != 0 && end-a.JobCurrentStartDate.Micros() <= d.Longest.Microseconds()
}

// WriteEpochs says how a site gets epoch ads.
const WriteEpochs = "let adstash write epoch ads (ADSTASH_SCHEDD_JOB_EPOCH_HISTORY = True) into an index of their " +
	"own, and set jobsEpochIndex; or import what `condor_history -epochs` prints"

// maxShort is the number of ads of runs up to a length that one lookup holds at most.
const maxShort = 500_000

// Source looks job ads up. Its methods may be called at the same time from several goroutines.
//
// Errors are [pool.SourceError] (the store, with its address and a remedy) or ctx's own error, wrapped. An error means
// no result at all; an answer from which something is missing is a result with notices. Result.Ads has one entry for
// each of the given, in their order; without any a lookup returns an empty Result, without a request to the store. A
// source that holds something open is an [io.Closer].
type Source interface {
	// Ads returns all ads of the given jobs: nil for a job without an ad. A job may be given more than once.
	Ads(ctx context.Context, wanted []Wanted) (Result, error)

	// AdsOnMachines returns the ads whose run (JobCurrentStartDate) began on a machine on a UTC day: all, for runs that
	// the snapshots show without a GlobalJobId (methodology section 9, step 2), or only those of runs up to a length
	// (RunEnd), which no snapshot may show (section 8). All days have a length or none has, and each machine and day has
	// one length only.
	AdsOnMachines(ctx context.Context, days []MachineDay) (Result, error)

	// Newest returns the newest RecordTime of all ads (of an epoch ad it equals EpochWriteDate); zero if there are no ads.
	Newest(ctx context.Context) (time.Time, error)

	// Health requests the store's kind and contents, for the health check.
	Health(ctx context.Context) (Health, error)
}

// Limited returns a context that ends after a time, or three quarters of the time until ctx's deadline: who gives up a
// lookup then can still answer without job ads.
func Limited(ctx context.Context, longest time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		longest = min(longest, time.Until(deadline)*3/4)
	}
	return context.WithTimeout(ctx, longest)
}

// Result is the answer of a lookup.
type Result struct {
	// Ads of each requested job, or machine and day. Those of one entry are sorted by [Compare], which tells them apart: a
	// document stored twice counts once. Callers must not modify them, because they are shared.
	Ads [][]Ad
	// Partial: documents may be missing (shards failed, time ran out, a limit was hit). The notices say why.
	Partial bool
	// Notices are sentences for the user, with numbers. Nil when there is nothing to say.
	Notices []string
	// Holds reports whether the same question would have the same answer without asking the store. Nil if only the store
	// can tell.
	Holds func() bool
	// Version is the same as long as the same question finds the same ads; 0 if it is not known.
	Version uint64
}

// Health describes a store that answers.
type Health struct {
	Store   string    // kind and location, without credentials
	Ads     int64     // number of documents
	Newest  time.Time // as Source.Newest
	Saves   bool      // an ad has JobLastCheckpointTime
	Notices []string  // limits of its use, each with a remedy
}

// Collector builds a [Result] from stored documents; all sources use it, so that they agree on order, duplicates and
// omitted ads. Add may be called from several goroutines.
type Collector struct {
	by    func(*Ad) string
	asked []string
	most  int // ads; 0 = any number

	mu                   sync.Mutex
	found                map[string][]Ad
	unusable, other, bad int
	long                 int // texts that were cut
	kept, cut            int
	values               pool.Values
}

// NewCollector collects the ads whose key is in asked; by returns the key of an ad.
func NewCollector(asked []string, by func(*Ad) string) *Collector {
	c := &Collector{by: by, asked: asked, found: make(map[string][]Ad, len(asked))}
	for _, key := range asked {
		c.found[key] = nil
	}
	return c
}

// ByJob is the key of the ads that Source.Ads looks up.
func ByJob(a *Ad) string { return a.GlobalJobID }

// DayOf is the machine and day of an ad's run; false if the ad does not say when the run began.
func DayOf(a *Ad) (MachineDay, bool) {
	return MachineDay{Machine: a.Machine, Day: int32(a.JobCurrentStartDate / secondsOfDay)}, a.JobCurrentStartDate != 0
}

// NewDayCollector collects the ads that Source.AdsOnMachines looks up. Of ads up to a length it keeps a bounded number.
func NewDayCollector(days []MachineDay) *Collector {
	keys, asked := Keys(days), make(map[MachineDay]int, len(days))
	for i, d := range days {
		asked[MachineDay{Machine: d.Machine, Day: d.Day}] = i
	}
	c := NewCollector(keys, func(a *Ad) string {
		day, began := DayOf(a)
		if i, wanted := asked[day]; began && wanted && days[i].allows(a) {
			return keys[i]
		}
		return ""
	})
	if len(days) > 0 && days[0].Longest > 0 {
		c.most = maxShort
	}
	return c
}

// Keys are the keys of requested items, in order.
func Keys[W interface{ Key() string }](wanted []W) []string {
	keys := make([]string, len(wanted))
	for i, w := range wanted {
		keys[i] = w.Key()
	}
	return keys
}

// Add parses a document and keeps it if it is a history or epoch ad with a wanted key.
func (c *Collector) Add(stored []byte) {
	var values pool.Values
	ad, err := parse(stored, &values)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unusable++
		return
	}
	key := c.by(&ad)
	ads, asked := c.found[key]
	switch {
	case !asked:
	case ad.Kind == Other:
		c.other++
	case c.most > 0 && c.kept == c.most:
		c.cut++
	default:
		c.kept++
		c.bad += ad.Unread
		c.values.Merge(&values)
		c.long += ad.Cut
		c.found[key] = append(ads, ad)
	}
}

// Result sorts the added ads and counts the omitted ones.
func (c *Collector) Result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, ads := range c.found {
		slices.SortFunc(ads, inOrder)
		c.found[key] = slices.CompactFunc(ads, func(a, b Ad) bool { return Compare(a, b) == 0 })
	}
	result := Result{Ads: make([][]Ad, len(c.asked))}
	for i, key := range c.asked {
		result.Ads[i] = c.found[key]
	}
	result.Partial = c.cut > 0
	note := func(n int, text string, values ...any) {
		if n > 0 {
			result.Notices = append(result.Notices, fmt.Sprintf(text, values...))
		}
	}
	note(c.cut, "More than %d job ads match: %d of them were left out. Ask for a shorter time range.", c.most, c.cut)
	note(c.unusable, "%d stored documents are not job ads (invalid JSON or no GlobalJobId) and were left out.",
		c.unusable)
	note(c.other, "%d documents are neither history nor epoch ads (file transfers, beginnings of epochs) and were left "+
		"out.", c.other)
	note(c.bad, "%d values in job ads could not be read and count as missing.", c.bad)
	if text := c.values.String(); text != "" {
		result.Notices = append(result.Notices, "Job ads have "+text+". Leave out attributes that a job lacks.")
	}
	note(c.long, "%d texts in job ads are longer than %d bytes and were cut.", c.long, pool.MostText)
	return result
}

// inOrder compares ads by [Compare], and those that it does not tell apart by their JSON with sorted names, as far as
// attributes are read: of documents that differ only so, the greater one counts (methodology section 9), whatever the
// order in which they are found.
func inOrder(a, b Ad) int {
	if order := Compare(a, b); order != 0 || reflect.DeepEqual(&a, &b) {
		return order
	}
	return bytes.Compare(b.sorted(), a.sorted())
}

// sorted returns the attributes that the ad has, as JSON with sorted names.
func (a *Ad) sorted() []byte {
	has := map[string]any{}
	of := reflect.ValueOf(a).Elem()
	for _, field := range reflect.VisibleFields(of.Type()) {
		if name := cmp.Or(field.Tag.Get("ad"), field.Name); name != "-" && !of.FieldByIndex(field.Index).IsZero() {
			has[name] = of.FieldByIndex(field.Index).Interface()
		}
	}
	if a.Exited {
		has["ExitCode"] = true
	}
	if a.HasVacateReasonCode {
		has["VacateReasonCode"] = a.VacateReasonCode
	}
	text, _ := json.Marshal(has) // sorts names; never fails for texts and numbers
	return text
}
