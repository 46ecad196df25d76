package collect

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

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
