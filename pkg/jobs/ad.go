package jobs

import (
	"cmp"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Kind is the kind of a job ad.
type Kind uint8

const (
	// Other is a document that is neither of the two below: the record of a file transfer or of an epoch's beginning, or
	// the ad of a data slot. Sources leave such documents out.
	Other Kind = iota
	// History is the ad of a job that has left the queue or is held: one a job, its dates those of the last run.
	History
	// Epoch is the ad of one finished run.
	Epoch
)

// String is the kind as the job file stores it.
func (k Kind) String() string { return [...]string{"other", "history", "epoch"}[k] }

// Ad is one job ad document, of either adstash schema, with the attributes that runs and their outcomes are derived
// from (htcondor.md, "Which run do an ad's dates describe?"). Names are HTCondor's attribute names, or those of the
// tag; the tag - marks fields that are not attributes.
//
// A date that is not stored is 0, which HTCondor and adstash also express by 0 or null. Numbers that are not stored
// are 0, texts "". Texts come first, small fields last: a process holds many ads, which the garbage collector scans
// for pointers.
type Ad struct {
	GlobalJobID  string `ad:"GlobalJobId"` // schedd#cluster.proc#qdate
	AccessPoint  string `ad:"ScheddName"`  // ScheddName; if it is missing, that of GlobalJobID before the first #
	User         string // user@domain; Owner if User is missing
	Owner        string
	ChtcProjects string // a list

	// How all runs of the job ended, and of these the attempts that never began, by the names of the vacate codes: such as
	// StartdDraining=2,ReconnectFailed=1.
	NumVacatesByReason             string
	NumVacatesByReasonPreExecution string

	// Where the last run was (an epoch ad: that run). Ads as HTCondor prints them have neither StartdName nor StartdSlot,
	// which adstash makes; an epoch ad has its slot in RemoteHost, and in LastRemoteHost that of the previous run.
	Machine string   `ad:"StartdName"`   // the part after the last @ of StartdName, or RemoteHost, or LastRemoteHost
	Slot    string   `ad:"StartdSlot"`   // StartdSlot, or the host's name before the first @: slot1_2, backfill2_1
	GPUs    []string `ad:"AssignedGPUs"` // AssignedGPUs in stored order; ids that were cut ("...") are dropped
	Startd  string   `ad:"-"`            // the startd's name in the host's, slot1_2@glidein_7@host; "" if it has none

	// RecordTime is when the ad was final. If it is not stored, adstash's rule gives it: EpochWriteDate, or
	// CompletionDate, or EnteredCurrentStatus, the first that exists.
	RecordTime           Date
	QDate                Date
	JobStartDate         Date // start of the first run
	JobLastStartDate     Date // start of the run before the last
	JobCurrentStartDate  Date // start of the last run (an epoch ad: of that run)
	CompletionDate       Date // end, of a completed job only
	EnteredCurrentStatus Date // when the job was removed or held, maybe long after its last run
	LastVacateTime       Date // the first vacate or hold (before HTCondor 25.4 the last); survives a completion
	EpochWriteDate       Date // end of the run, epoch ads only; RecordTime if it is not stored
	JobDisconnectedDate  Date // when the job was lost with its machine
	// JobLastCheckpointTime is when the job last stored a checkpoint in this run: epoch ads only.
	JobLastCheckpointTime Date

	LastRemoteWallClockTime float64 // seconds of the last run

	// The job's requests. Sizes of memory are in MiB.
	RequestGPUs      float64
	RequestCPUs      float64 `ad:"RequestCpus"`
	RequestMemory    float64
	RequestGPUMemory float64 // of each GPU; 0: any

	JobStatus        int // 1 idle, 2 running, 3 removed, 4 completed, 5 held, 6 transferring output, 7 suspended
	LastJobStatus    int // the status before
	VacateReasonCode int // htcondor.md, "Vacate codes"
	NumHolds         int

	HoldReasonCode      int // of an epoch ad: why this run was held; 0: it was not
	VacateReasonSubCode int
	ExitSignal          int // of a job that a signal ended
	// ExitFailure is an ExitCode that is neither 0 nor SuccessCheckpointExitCode; 0: there is none.
	ExitFailure int `ad:"-"`

	// PeakMiB is the highest use of memory of one GPU (GPUsMemoryUsage); negative: it is not known.
	PeakMiB float64 `ad:"-"`

	// Unread counts the attributes that figures use whose stored value is of no use (a word for a number, say); they count
	// as not stored.
	Unread int `ad:"-"`
	// Cut counts the texts that [pool.Cut] has cut.
	Cut int `ad:"-"`

	Kind                Kind `ad:"-"`
	HasVacateReasonCode bool `ad:"-"` // whether VacateReasonCode is stored
	// Exited: the job ended by itself in this run: ExitCode is stored or ExitBySignal is true. (A stored false alone
	// proves nothing: condor_submit writes it into every job. An ExitCode equal to SuccessCheckpointExitCode does not
	// count, because the job saved its work in order to continue.)
	Exited bool `ad:"-"`
	// BySignal: a signal ended the job.
	BySignal bool `ad:"-"`
	// Refactored: the document has an @timestamp, as adstash writes it since HTCondor 25.14. (In the schema before, and in
	// condor_history's own output, there is none.)
	Refactored bool `ad:"-"`
}

// Date is a date of an ad, in seconds since 1970 by its access point's clock; 0 = not stored.
type Date int64

// Micros is the date in the unit of snapshots; 0 = not stored.
func (d Date) Micros() pool.Micros { return pool.Micros(d) * pool.Second }

// Time is the date in UTC; the zero time = not stored.
func (d Date) Time() time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Unix(int64(d), 0).UTC()
}

// ReconnectFailed is the vacate code of a run that was lost with its machine.
const ReconnectFailed = 1008

// HTCondor's JobStatus.
const (
	StatusIdle      = 1
	StatusRunning   = 2
	StatusRemoved   = 3
	StatusCompleted = 4
	StatusHeld      = 5
)

// RemovedWhileIdle reports whether a job was removed between two runs, and no code says why the last one ended.
func (a *Ad) RemovedWhileIdle() bool {
	return a.JobStatus == StatusRemoved && a.LastJobStatus == StatusIdle && !a.HasVacateReasonCode
}

// VacatedBefore reports whether the vacate that the ad has was that of an earlier run.
func (a *Ad) VacatedBefore() bool {
	return a.LastVacateTime != 0 && a.LastVacateTime < a.JobCurrentStartDate
}

// LostEarlier reports whether the run ended before the ad was written, when it was lost with its machine: the ad
// follows JobLeaseDuration, 40 minutes, later.
func (a *Ad) LostEarlier() bool {
	return a.Kind == Epoch && a.VacateReasonCode == ReconnectFailed && a.JobDisconnectedDate > a.JobCurrentStartDate
}

// RunEnd is when the run that the ad describes ended, by its access point's clock; 0 = the ad does not say.
func (a *Ad) RunEnd() pool.Micros {
	switch {
	case a.LostEarlier():
		return a.JobDisconnectedDate.Micros()
	case a.Kind == Epoch:
		return a.EpochWriteDate.Micros()
	case a.CompletionDate != 0:
		return a.CompletionDate.Micros()
	case a.RemovedWhileIdle() && a.LastVacateTime != 0 && !a.VacatedBefore():
		return a.LastVacateTime.Micros()
	case a.JobCurrentStartDate != 0 && a.LastRemoteWallClockTime > 0:
		return a.JobCurrentStartDate.Micros() + pool.Micros(a.LastRemoteWallClockTime*float64(pool.Second)+0.5)
	}
	return 0
}

// Compare orders ads by RecordTime, then GlobalJobID, then history before epoch, then the start of the run.
func Compare(a, b Ad) int {
	return cmp.Or(cmp.Compare(a.RecordTime, b.RecordTime), strings.Compare(a.GlobalJobID, b.GlobalJobID),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.JobCurrentStartDate, b.JobCurrentStartDate))
}
