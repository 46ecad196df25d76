package samplepool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Ad is one job ad as adstash stores it (one Elasticsearch _source).
type Ad struct {
	// an epoch ad (one per finished run); otherwise a history ad (one per job that left the queue or stays on hold)
	Epoch       bool
	GlobalJobID string
	RecordTime  int64  // UTC epoch seconds by the access point's clock
	ID          string // document id: GlobalJobId#RecordTime, of epoch ads GlobalJobId#NumShadowStarts#RecordTime
	JSON        []byte // refactored schema (HTCondor 25.14+)
	Legacy      []byte // the same ad in the legacy schema; nil for epoch ads
}

// Ads are the ads of backfill and primary jobs that were written between the pool's Start and End and reached the
// archive: the history ads by RecordTime, then the epoch ads. Its only error is ctx's.
func (p *Pool) Ads(ctx context.Context) ([]Ad, error) {
	var history, epochs []Ad
	err := p.EachAd(ctx, func(a Ad) {
		if a.Epoch {
			epochs = append(epochs, a)
		} else {
			history = append(history, a)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, ads := range [][]Ad{history, epochs} {
		slices.SortStableFunc(ads, func(a, b Ad) int {
			return cmp.Or(cmp.Compare(a.RecordTime, b.RecordTime), strings.Compare(a.GlobalJobID, b.GlobalJobID))
		})
	}
	return append(history, epochs...), nil
}

// EachAd yields the same ads as they are written, so that the ads of a large pool need not be kept in memory. Its only
// error is ctx's.
func (p *Pool) EachAd(ctx context.Context, take func(Ad)) error {
	rnd := p.random("ads")
	start, end := p.options.Start.UnixMilli(), p.options.End.UnixMilli()
	archived := func(written int64) bool {
		missing := rnd.Float64() < p.options.MissingAds
		return !missing && written >= start && written <= end
	}
	s := p.simulate(observer{
		ended: func(r *run) {
			if archived(r.reported()) {
				take(p.epochAd(r))
			}
		},
		left: func(j *job) {
			if archived(j.entered) {
				take(historyAd(j))
			}
		},
	})
	return s.advance(ctx, s.end)
}

// vacate is what HTCondor says about the end of a run that did not complete.
type vacate struct {
	code   int
	text   string
	counts string // its name in NumVacatesByReason; empty: it does not count there
}

const overMemory = "Job has gone over cgroup memory limit"

var vacates = map[Reason]vacate{
	EvictedByPrimary: {1011, "PREEMPT expression evaluated to True", "StartdPreemptExpression"},
	DrainedReason:    {1014, "The slot was drained", "StartdDraining"},
	HostDown:         {1008, "Job lease expired; failed to reconnect", "ReconnectFailed"},
	Removed:          {1023, "via condor_rm (by user)", ""},
	Held:             {34, overMemory, "JobOutOfResources"},
}

// stamp is a time as the job's access point writes it: whole seconds of its own clock.
func (j *job) stamp(t int64) int64 { return t/second + j.schedd.ClockAhead }

// seconds is the length of a run as its access point counts it.
func (r *run) seconds() int64 { return r.job.stamp(r.reported()) - r.job.stamp(r.start) }

// writeStart writes what history and epoch ads say of the job, and of its last run, the one before and the first.
func (a *adWriter) writeStart(r *run) {
	j := r.job
	owner, _, _ := strings.Cut(j.user, "@")
	startd, _, _ := strings.Cut(r.slotName(), "@")
	a.text("GlobalJobId", j.id)
	a.number("ClusterId", int64(j.cluster))
	a.number("ProcId", int64(j.proc))
	a.text("Owner", owner)
	a.text("User", j.user)
	a.text("ScheddName", j.schedd.Name)
	a.text("ProjectName", "UW_"+owner)
	a.number("QDate", j.stamp(j.queued))
	a.text("MyType", "Job")
	a.number("JobUniverse", 5)
	a.text("Cmd", "/home/"+owner+"/train.sh")
	a.number("RequestGPUs", int64(j.gpus))
	a.number("GPUsProvisioned", int64(len(r.gpus)))
	a.number("RequestCpus", int64(cpusOfJob*j.gpus))
	a.number("RequestMemory", int64(memoryOfJob*j.gpus))
	if memory := j.memory(); memory > 0 {
		a.unknown("RequestGPUMemory", int64(memory))
	}
	if j.project != "" {
		a.unknownText("ChtcProjects", j.project)
	}
	if peak := r.peak(); peak > 0 {
		a.unknown("GPUsMemoryUsage", int64(peak))
	}
	a.text("AssignedGPUs", strings.Join(ids(r.gpus), ","))
	a.text("StartdName", r.host.Name)
	a.text("StartdSlot", startd)
	a.text("LastRemoteHost", r.slotName())
	a.number("NumJobStarts", int64(r.number))
	a.number("NumShadowStarts", int64(r.number))
	a.number("JobRunCount", int64(r.number))
	first, current := j.stamp(j.runs[0].start), j.stamp(r.start)
	a.number("JobStartDate", first)
	a.number("JobCurrentStartDate", current)
	a.number("JobCurrentStartExecutingDate", current+3)
	a.number("FirstJobMatchDate", first)
	if r.number > 1 {
		a.number("JobLastStartDate", j.stamp(j.runs[r.number-2].start))
	}
	var wall int64
	for _, earlier := range j.runs[:r.number] {
		wall += earlier.seconds()
	}
	a.raw("RemoteWallClockTime", strconv.FormatInt(wall, 10)+".0")
	a.unknown("LastRemoteWallClockTime", r.seconds())
}

// writeExit says how a job ended by itself.
func (a *adWriter) writeExit(f failure) {
	if f.signal != 0 {
		a.number("ExitSignal", int64(f.signal))
		a.raw("ExitBySignal", "true")
		return
	}
	a.number("ExitCode", int64(f.code))
	a.raw("ExitBySignal", "false")
}

func (a *adWriter) writeVacate(v vacate) {
	a.unknown("VacateReasonCode", int64(v.code))
	a.unknownText("VacateReason", v.text)
	a.unknown("VacateReasonSubCode", 0)
}

// epochAd is the ad of one finished run. Sites that collect them run the refactored schema.
func (p *Pool) epochAd(r *run) Ad {
	j := r.job
	written := j.stamp(r.reported())
	a := &adWriter{}
	a.writeStart(r)
	if r.holdsNow > 0 {
		a.unknown("NumHolds", int64(r.holdsNow))
	}
	if saved := p.savedUntil(r); saved > 0 {
		a.number("JobLastCheckpointTime", j.stamp(saved))
	}
	a.number("JobStatus", running)
	a.writeVacates(j.runs[:r.number-1], j.runs[:r.number])
	a.text("EpochAdType", "EPOCH")
	a.number("EpochWriteDate", written)
	a.number("RecordTime", written)
	if r.reason == Completed {
		a.writeExit(r.failure)
	} else {
		a.writeVacate(vacates[r.reason])
	}
	a.number("@timestamp", written)
	return Ad{
		Epoch: true, GlobalJobID: j.id, RecordTime: written, ID: fmt.Sprintf("%s#%d#%d", j.id, r.number, written),
		JSON: a.end("schedd_job_epoch_history"),
	}
}

// historyAd is the ad of a job at the end of its time in the queue.
func historyAd(j *job) Ad {
	written := j.stamp(j.entered)
	return Ad{
		GlobalJobID: j.id, RecordTime: written, ID: fmt.Sprintf("%s#%d", j.id, written),
		JSON: j.history(&adWriter{}, written), Legacy: j.history(&adWriter{legacy: true}, written),
	}
}

func (j *job) history(a *adWriter, written int64) []byte {
	last := j.runs[len(j.runs)-1]
	a.writeStart(last)
	a.number("JobStatus", int64(j.status))
	a.number("LastJobStatus", int64(j.lastState))
	a.number("EnteredCurrentStatus", written)
	source := "schedd_history"
	var committed int64
	switch j.status {
	case complete:
		committed = last.seconds()
		a.number("CompletionDate", written)
		a.writeExit(last.failure)
	case removed:
		owner, _, _ := strings.Cut(j.user, "@")
		a.text("RemoveReason", "via condor_rm (by user "+owner+")")
	case held:
		a.text("HoldReason", overMemory)
		a.number("HoldReasonCode", int64(vacates[Held].code))
		source = "startd_history"
	}
	a.number("CommittedTime", committed)
	if j.holds > 0 {
		a.unknown("NumHolds", int64(j.holds))
	}
	a.writeVacates(j.runs, j.runs)
	// They are deleted at each start, so only the last run's are left; a running job that is removed has none yet.
	if v, ok := vacates[last.reason]; ok && last.reason != Removed {
		a.writeVacate(v)
	}
	a.number("RecordTime", written)
	if a.legacy {
		a.text("Status", map[int]string{complete: "Completed", removed: "Removed", held: "Held"}[j.status])
		a.text("Universe", "Vanilla")
	} else {
		a.number("@timestamp", written)
	}
	return a.end(source)
}

// adWriter writes a JSON object attribute by attribute. The legacy schema spells some names its own way, and stores
// unknown attributes in lower case and as strings.
type adWriter struct {
	legacy bool
	json   []byte
}

var legacyNames = map[string]string{"RequestGPUs": "RequestGpus", "GPUsProvisioned": "GpusProvisioned",
	"FirstJobMatchDate": "FirstjobmatchDate"}

func (a *adWriter) raw(name, value string) {
	if legacy, ok := legacyNames[name]; ok && a.legacy {
		name = legacy
	}
	opening := byte(',')
	if len(a.json) == 0 {
		opening = '{'
	}
	a.json = append(a.json, opening)
	a.json = strconv.AppendQuote(a.json, name)
	a.json = append(a.json, ':')
	a.json = append(a.json, value...)
}

func (a *adWriter) number(name string, value int64) { a.raw(name, strconv.FormatInt(value, 10)) }

func (a *adWriter) text(name, value string) {
	quoted, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string always marshals
	}
	a.raw(name, string(quoted))
}

func (a *adWriter) unknown(name string, value int64) {
	if a.legacy {
		a.text(strings.ToLower(name), strconv.FormatInt(value, 10))
	} else {
		a.number(name, value)
	}
}

func (a *adWriter) unknownText(name, value string) {
	if a.legacy {
		name = strings.ToLower(name)
	}
	a.text(name, value)
}

// writeVacates counts how runs were vacated, holds included, and says when it happened first: since HTCondor 25.4
// LastVacateTime is the first vacate of the job's life. An epoch ad does not count its own run.
func (a *adWriter) writeVacates(counted, until []*run) {
	for _, r := range until {
		if vacates[r.reason].counts != "" {
			a.number("LastVacateTime", r.job.stamp(r.reported()))
			break
		}
	}
	counts, total := map[string]int{}, 0
	for _, r := range counted {
		if name := vacates[r.reason].counts; name != "" {
			counts[name]++
			total++
		}
	}
	if total == 0 {
		return
	}
	a.unknown("NumVacates", int64(total))
	var legacy, refactored []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		legacy = append(legacy, fmt.Sprintf("%s = %d", name, counts[name]))
		refactored = append(refactored, fmt.Sprintf("%q:%d", name, counts[name]))
	}
	if a.legacy {
		a.text("numvacatesbyreason", "[ "+strings.Join(legacy, "; ")+" ]")
	} else {
		a.raw("NumVacatesByReason", "{"+strings.Join(refactored, ",")+"}")
	}
}

func (a *adWriter) end(source string) []byte {
	a.raw("metadata", `{"condor_adstash_source":"`+source+`"}`)
	return append(a.json, '}')
}

// WriteAds writes jobs_history_legacy.jsonl, jobs_history_refactored.jsonl, jobs_epochs.jsonl and the job file jobs.db
// (the refactored history and the epoch ads) into dir. A file that exists is an error.
func (p *Pool) WriteAds(ctx context.Context, dir string) error {
	ads, err := p.Ads(ctx)
	if err != nil {
		return err
	}
	var legacy, refactored, epochs strings.Builder
	for _, ad := range ads {
		if ad.Epoch {
			fmt.Fprintf(&epochs, "%s\n", ad.JSON)
			continue
		}
		fmt.Fprintf(&legacy, "%s\n", ad.Legacy)
		fmt.Fprintf(&refactored, "%s\n", ad.JSON)
	}
	if err := cmp.Or(writeFile(dir, "jobs_history_legacy.jsonl", legacy.String()),
		writeFile(dir, "jobs_history_refactored.jsonl", refactored.String()),
		writeFile(dir, "jobs_epochs.jsonl", epochs.String())); err != nil {
		return err
	}
	return writeJobFile(ctx, dir, ads)
}

// writeJobFile writes ads as `import-jobs` does.
func writeJobFile(ctx context.Context, dir string, ads []Ad) (err error) {
	t, err := newTable(ctx, dir, "jobs.db", "CREATE TABLE ads (kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT)")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, t.close("CREATE INDEX ads_GlobalJobId ON ads (GlobalJobId)",
			"CREATE INDEX ads_RecordTime ON ads (RecordTime)"))
	}()
	for _, ad := range ads {
		kind := "history"
		if ad.Epoch {
			kind = "epoch"
		}
		if err := t.add(ctx, kind, ad.GlobalJobID, ad.RecordTime, string(ad.JSON)); err != nil {
			return err
		}
	}
	return nil
}
