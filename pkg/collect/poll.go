package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Polled is the result of a poll of the queues.
type Polled struct {
	Time     time.Time     // when it began, to the second; zero: none was written
	Schedds  int           // access points that answered
	Jobs     int           // idle and running jobs that ask for GPUs
	Running  int           // how many of them run
	New      int           // how many of them have a new row: the others' rows are extended
	Notes    string        // values not stored unchanged, and failed access points; "" if none
	Duration time.Duration // how long the poll took
}

const (
	// pollLockName is the file whose lock a poll holds: it does not keep snapshots from being taken.
	pollLockName = "collector_jobs.lock"
	// atOnce bounds the access points that are polled at the same time.
	atOnce = 4
	// awayWithoutPolls is how long a job may be away for its row to continue while the file has fewer than two polls.
	awayWithoutPolls = 90 * time.Minute
)

// Poll polls the access points once. One that does not answer is named in the notes: its jobs' rows continue at the
// next poll that sees them. On an error nothing is written, and the run log has the reason: another poll is under way
// in the directory, no access point answers, the clock is behind the last poll, the file cannot be written.
func Poll(ctx context.Context, o Options) (Polled, error) {
	o, err := o.prepare()
	if err != nil {
		return Polled{}, err
	}
	if o.bucket != nil {
		defer o.bucket.Close()
	}
	held, err := lock(o.SnapshotDir, pollLockName)
	if err != nil {
		return Polled{}, err
	}
	defer held.Close()
	began := o.now().Truncate(time.Second)
	log, err := beginPoll(ctx, o.SnapshotDir, began)
	if err != nil {
		return Polled{}, err
	}
	result, err := pollQueues(ctx, o, began)
	result.Duration = o.now().Sub(began)
	failed := log.end(ctx, result.Duration, result.Notes, err, "schedds = ?, jobs = ?, added = ?", result.Schedds,
		result.Jobs, result.New)
	return result, cmp.Or(err, failed)
}

// pollQueues asks the access points and writes their answers. The poll's time is when it began.
func pollQueues(ctx context.Context, o Options, began time.Time) (Polled, error) {
	// Ask the access points, and tell those that answered from the others.
	names := o.Schedds
	if len(names) == 0 {
		var err error
		if names, err = o.accessPoints(ctx); err != nil {
			return Polled{}, err
		}
	}
	answers, failures, err := o.pollAccessPoints(ctx, names)
	if err != nil {
		return Polled{}, err
	}
	var result Polled
	var schedds, failed []string
	var jobs []ad
	for i, failure := range failures {
		if failure != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", names[i], failure))
		} else {
			schedds, jobs = append(schedds, names[i]), append(jobs, answers[i]...)
		}
	}
	if result.Schedds = len(schedds); result.Schedds == 0 {
		return Polled{}, pool.SourceError("no access point answers: %s", strings.Join(failed, "; "))
	}
	// Note what cannot be stored as it is.
	result.Notes = notesOn(jobs, o.attributesOfJobs(), "jobs", "GlobalJobId", "stored as missing")
	if n := len(failed); n > 0 {
		result.Notes = joined(result.Notes,
			fmt.Sprintf("%d access points did not answer: %s", n, strings.Join(failed, "; ")))
	}
	// Write the jobs, each once.
	jobs = once(jobs)
	result.Jobs = len(jobs)
	if len(jobs) == 0 {
		return result, nil // nothing to write, as the poller in use does
	}
	for _, job := range jobs {
		if job.runs() {
			result.Running++
		}
	}
	p := &queuePoll{at: began.Unix(), now: began.Unix() - 1, away: int64(o.away / time.Second), schedds: schedds,
		jobs: jobs}
	begun, note, err := o.writePoll(ctx, began, p)
	if err != nil {
		return Polled{}, err
	}
	result.Time, result.New, result.Notes = began, begun, joined(result.Notes, note)
	return result, nil
}

// pollAccessPoints asks access points for the idle and running jobs of all users that ask for GPUs, some access points
// at a time, and returns their jobs or failures in the same order.
func (o *Options) pollAccessPoints(ctx context.Context, points []string) (jobs [][]ad, failures []error, err error) {
	jobs, failures = make([][]ad, len(points)), make([]error, len(points))
	attributes := strings.Join(names(o.attributesOfJobs()), ",")
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, name := range points {
		args := []string{"-name", name, "-allusers", "-constraint", gpuJobs, "-json", "-attributes", attributes}
		group.Go(func() error {
			_, failures[i] = o.ask(inner, o.CondorQ, args, func(output io.Reader) (err error) {
				jobs[i], err = o.decodeJobs(output, name)
				return err
			})
			return nil
		})
	}
	if err = group.Wait(); err == nil && ctx.Err() != nil {
		err = fmt.Errorf("polling the access points: %w", ctx.Err())
	}
	return jobs, failures, err
}

// accessPoints returns the names of all access points that the collector knows, as condor_status -schedd prints them.
func (o Options) accessPoints(ctx context.Context) (points []string, err error) {
	take := func(point ad, _ json.RawMessage) error {
		if point.text("Name") == "" {
			return errors.New("an ad has no Name")
		}
		points = append(points, point.text("Name"))
		return nil
	}
	complaint, err := o.ask(ctx, o.CondorStatus, []string{"-schedd", "-json", "-attributes", "Name"},
		func(output io.Reader) error {
			return eachAd(output, "condor_status", "ads", []attribute{{"Name", text}}, take)
		})
	if err == nil && len(points) == 0 {
		err = pool.SourceError("%s knows no access point%s: is it the right pool? Or name them with --schedd",
			o.CondorStatus, complaint)
	}
	slices.Sort(points)
	return slices.Compact(points), err
}

// once drops the jobs that an access point named before.
func once(jobs []ad) []ad {
	seen := map[[2]string]bool{}
	return slices.DeleteFunc(jobs, func(job ad) bool {
		key := [2]string{job.text("ScheddName"), job.text("GlobalJobId")}
		again := seen[key]
		seen[key] = true
		return again
	})
}

// gpuJobs is the constraint for condor_q: idle or running jobs that request GPUs.
const gpuJobs = "RequestGPUs >= 1 && (JobStatus == 1 || JobStatus == 2)"

// running is the JobState of a running job, exactly so. That of an idle one is idle.
const running = "running"

// jobAttributes are requested from condor_q for each job.
var jobAttributes = []attribute{
	{"GlobalJobId", text}, {"Owner", text}, {"RequestGPUs", literal[float64]}, {"RequestCPUs", literal[float64]},
	{"RequestMemory", literal[float64]}, {"RequestGPUMemory", literal[float64]}, {"GPUsMinMemory", literal[float64]},
	{"QDate", integer}, {"JobStatus", integer},
}

// attributesOfJobs are those that are requested, with the one that holds the projects.
func (o *Options) attributesOfJobs() []attribute {
	return slices.Insert(slices.Clone(jobAttributes), len(jobAttributes)-1, attribute{o.ProjectAttribute, projects})
}

// projects reads the projects of a job: a string, or a list of strings, which becomes one with commas.
func projects(raw []byte) (any, bool) {
	if members, isList := literal[[]string](raw); isList {
		return strings.Join(members.([]string), ","), true
	}
	return text(raw)
}

// decodeJobs reads the output of condor_q -json: a JSON array, or nothing when no job fits. A GlobalJobId is a text in
// every ad, so anything else is not condor_q's output and an error.
func (o *Options) decodeJobs(r io.Reader, schedd string) (jobs []ad, err error) {
	err = eachAd(r, "condor_q", "ads", o.attributesOfJobs(), func(job ad, _ json.RawMessage) error {
		if job.text("GlobalJobId") == "" {
			return errors.New("an ad has no GlobalJobId")
		}
		job.values["ScheddName"], job.values["ChtcProjects"] = schedd, job.text(o.ProjectAttribute)
		jobs = append(jobs, job)
		return nil
	})
	return jobs, err
}

// runs reports whether a job runs.
func (a *ad) runs() bool { return a.values["JobStatus"] == int64(2) }

// jobRow is a job's row, with the poll for first_seen and last_seen. As the poller in use does: a text that is missing
// is empty, and a memory of no more than 0 is none. HTCondor never writes RequestGPUMemory itself: gpus_minimum_memory
// of a submit file becomes GPUsMinMemory.
func (a *ad) jobRow(poll int64) row {
	r := row(maps.Clone(a.values))
	r["Owner"], r["ChtcProjects"] = a.text("Owner"), a.text("ChtcProjects")
	memory, _ := r["RequestGPUMemory"].(float64)
	if memory <= 0 && !slices.Contains(a.unread, "RequestGPUMemory") {
		memory, _ = r["GPUsMinMemory"].(float64)
	}
	r["RequestGPUMemory"] = nil
	if memory > 0 {
		r["RequestGPUMemory"] = memory
	}
	r["JobState"] = "idle"
	if a.runs() {
		r["JobState"] = running
	}
	r["first_seen"], r["last_seen"] = poll, poll
	return r
}
