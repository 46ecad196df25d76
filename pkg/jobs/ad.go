package jobs

import (
	"cmp"
	"strings"
)

// Kind is what a job ad describes.
type Kind uint8

const (
	// Other is a document that is neither of the two below: the record of a file transfer or of an epoch's beginning.
	// Sources leave such documents out.
	Other Kind = iota
	// History is the ad of a job that has left the queue or is held: one a job, its dates those of the last run.
	History
	// Epoch is the ad of one finished run.
	Epoch
)

// String is the kind as the job file stores it.
func (k Kind) String() string { return [...]string{"other", "history", "epoch"}[k] }

// Ad is one job ad document, of either adstash schema, with what runs and their outcomes are found from
// (htcondor.md, "Which run do an ad's dates describe?"). Names are HTCondor's attribute names.
//
// A date that is not stored is 0, which HTCondor and adstash also express by 0 or null. Numbers that are not stored are
// 0, texts "". Texts come first, small fields last: a process holds many ads, and looks through them for pointers.
type Ad struct {
	GlobalJobID  string // schedd#cluster.proc#qdate
	AccessPoint  string // ScheddName; where it is missing the part of GlobalJobID before the first #
	User         string // user@domain; Owner where User is missing
	Owner        string
	ChtcProjects string // a list as it is stored

	// Where the last run was (an epoch ad: that run).
	Machine string   // StartdName, else LastRemoteHost: what follows the last @
	Slot    string   // StartdSlot, else LastRemoteHost before the first @: slot1_2, backfill2_1
	GPUs    []string // AssignedGPUs in stored order; ids that were cut ("...") are dropped

	// RecordTime is when the ad was final. Where it is not stored it follows from the other dates by adstash's rule:
	// EpochWriteDate, else CompletionDate, else EnteredCurrentStatus.
	RecordTime           Date
	QDate                Date
	JobStartDate         Date // start of the first run
	JobLastStartDate     Date // start of the run before the last
	JobCurrentStartDate  Date // start of the last run (an epoch ad: of that run)
	CompletionDate       Date // end, of a completed job only
	EnteredCurrentStatus Date // when the job was removed or held, maybe long after its last run
	LastVacateTime       Date // the last vacate; survives a later completion
	EpochWriteDate       Date // end of the run, epoch ads only; RecordTime where it is not stored

	LastRemoteWallClockTime float64 // seconds of the last run
	RemoteWallClockTime     float64 // seconds of all runs
	CommittedTime           float64 // seconds of the runs that committed

	// What the job asked for. Sizes of memory are in MiB.
	RequestGPUs      float64
	RequestCPUs      float64
	RequestMemory    float64
	RequestGPUMemory float64 // of each GPU; 0: any

	JobStatus        int // 1 idle, 2 running, 3 removed, 4 completed, 5 held, 6 transferring output, 7 suspended
	LastJobStatus    int // the status before
	VacateReasonCode int // htcondor.md, "Vacate codes"
	NumJobStarts     int
	NumShadowStarts  int
	NumVacates       int
	NumHolds         int

	// Unread counts the attributes above whose stored value is of no use (a word for a number, say); they count as
	// not stored.
	Unread int

	Kind                Kind
	HasVacateReasonCode bool // whether VacateReasonCode is stored
	// Exited: the job ended by itself in this run: ExitCode is stored or ExitBySignal is true. (A stored false alone
	// proves nothing: condor_submit writes it into every job.)
	Exited bool
	// Refactored: the document has an @timestamp, as adstash writes it since HTCondor 25.14. (In the schema before, and in
	// condor_history's own output, there is none.)
	Refactored bool
}

// OnBackfill reports whether the last run was on a backfill slot.
func (a *Ad) OnBackfill() bool { return strings.Contains(strings.ToLower(a.Slot), "backfill") }

// Compare orders ads by RecordTime, then GlobalJobID, then history before epoch.
func Compare(a, b Ad) int {
	return cmp.Or(cmp.Compare(a.RecordTime, b.RecordTime), strings.Compare(a.GlobalJobID, b.GlobalJobID),
		cmp.Compare(a.Kind, b.Kind))
}
