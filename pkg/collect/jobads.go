package collect

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

// gpuJobs is the constraint for condor_q: idle or running jobs that request GPUs.
const gpuJobs = "RequestGPUs >= 1 && (JobStatus == 1 || JobStatus == 2)"

// running is the JobState of a running job, exactly so. That of an idle one is idle.
const running = "running"

// jobAttributes are requested from condor_q for each job.
var jobAttributes = []string{"GlobalJobId", "Owner", "RequestGPUs", "RequestCPUs", "RequestMemory", "RequestGPUMemory",
	"GPUsMinMemory", "QDate", "ChtcProjects", "JobStatus"}

// jobAd is the part of a job's ad that is used. JSON names are matched in any case, as ClassAds do.
type jobAd struct {
	GlobalJobID      text `json:"GlobalJobId"`
	Owner            text
	RequestGPUs      number
	RequestCPUs      number
	RequestMemory    number
	RequestGPUMemory number
	GPUsMinMemory    number
	QDate            integer
	ChtcProjects     text
	JobStatus        integer

	schedd string
}

// decodeJobs reads the output of condor_q -json: a JSON array, or nothing when no job fits. A GlobalJobId is a text in
// every ad, so anything else is not condor_q's output and an error.
func decodeJobs(r io.Reader, schedd string, notes *notes) (ads []jobAd, err error) {
	err = eachAd(r, "condor_q", "ads", func(raw json.RawMessage) error {
		ad := jobAd{schedd: schedd}
		if err := json.Unmarshal(raw, &ad); err != nil {
			return err
		}
		if !ad.GlobalJobID.Valid || ad.GlobalJobID.Value == "" {
			return errors.New("an ad has no GlobalJobId")
		}
		notes.of(ad.GlobalJobID.Value, utf8.Valid(raw), map[string]bool{"Owner": ad.Owner.bad,
			"RequestGPUs": ad.RequestGPUs.bad, "RequestCPUs": ad.RequestCPUs.bad, "RequestMemory": ad.RequestMemory.bad,
			"RequestGPUMemory": ad.RequestGPUMemory.bad, "GPUsMinMemory": ad.GPUsMinMemory.bad,
			"QDate": ad.QDate.bad, "ChtcProjects": ad.ChtcProjects.bad, "JobStatus": ad.JobStatus.bad})
		ads = append(ads, ad)
		return nil
	})
	return ads, err
}

// decodeNames reads the output of condor_status -schedd: the names of the access points.
func decodeNames(r io.Reader) (names []string, err error) {
	err = eachAd(r, "condor_status", "ads", func(raw json.RawMessage) error {
		var ad struct{ Name text }
		if err := json.Unmarshal(raw, &ad); err != nil {
			return err
		}
		if !ad.Name.Valid || ad.Name.Value == "" {
			return errors.New("an ad has no Name")
		}
		names = append(names, ad.Name.Value)
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// running reports whether the job runs.
func (ad *jobAd) running() bool { return ad.JobStatus.Value == 2 }

// row are the values of a job's row, in the order of pressureColumns, with the poll for first_seen and last_seen. As
// the poller in use does: a text that is missing is empty, and a memory of no more than 0 is none. HTCondor never
// writes RequestGPUMemory itself: gpus_minimum_memory of a submit file becomes GPUsMinMemory.
func (ad *jobAd) row(poll int64) []any {
	memory := ad.RequestGPUMemory
	if !memory.bad && memory.Value <= 0 {
		memory = ad.GPUsMinMemory
	}
	gpuMemory := memory.column()
	if memory.Value <= 0 {
		gpuMemory = nil
	}
	state := "idle"
	if ad.running() {
		state = running
	}
	return []any{ad.GlobalJobID.Value, ad.schedd, ad.Owner.Value, ad.RequestGPUs.column(), ad.RequestCPUs.column(),
		ad.RequestMemory.column(), gpuMemory, ad.QDate.column(), ad.ChtcProjects.Value, state, poll, poll}
}
