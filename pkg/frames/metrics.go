package frames

// presentation is how a column is shown. Tables keep the column's own name; the readable one is only displayed.
type presentation struct {
	name, unit  string
	decimals    int // -1: as needed
	description string
}

// presentations of metrics, groupings and further columns. Formulas: methodology sections 5 to 8; N = slices with a snapshot,
// D = covered hours. Units are Grafana's: "locale" is a number with separators, never in thousands; "GPU h" no unit of Grafana's,
// so that 530 GPU hours do not become 3.2 weeks.
var presentations = map[string]presentation{
	"category": {"Category", "", -1, ""}, "slots": {"Slots", "", -1, ""}, "device": {"Device", "", -1, ""}, "memory": {"Memory", "", -1, ""},
	"machine": {"Machine", "", -1, ""}, "ownership": {"Ownership", "", -1, ""}, "project": {"Project", "", -1, ""}, "user": {"User", "", -1, ""},
	"machineType": {"Machine type", "", -1, "Priority: owned by researchers or CHTC; Shared: open capacity"},
	"cause":       {"Cause", "", -1, ""}, "evidence": {"Evidence", "", -1, "What the outcome rests on"}, "rowType": {"Row", "", -1, ""},

	"allocatedPercent": {"Allocated %", "percent", 1, "100 · Σ claimed / Σ (claimed + unclaimed) over the slices"},
	"allocated":        {"Allocated (avg.)", "locale", 1, "Σ claimed / N: GPUs held by jobs, on average over the slices"},
	"available":        {"Available (avg.)", "locale", 1, "Σ (claimed + unclaimed) / N: GPUs that can be allocated"},
	"free":             {"Free (avg.)", "locale", 1, "GPUs without a job on primary and backfill slots that a job may start on, / N; each counted once"},
	"unclaimed":        {"Unclaimed (avg.)", "locale", 1, "Σ unclaimed / N: also those that a backfill job uses"},
	"drained":          {"Drained (avg.)", "locale", 1, "Σ drained / N"},
	"prevented":        {"Prevented (avg.)", "locale", 1, "GPUs without a job on which none may start (PreventJobsReason), / N"},

	"gpuHours":       {"GPU hours", "GPU h", 1, "GPUs held, over time"},
	"percentOfTotal": {"% of total", "percent", 1, "Share of the table's total"},
	"userCount":      {"Users", "locale", 0, "Number of users"},

	"snapshotAgeSeconds": {"Age of the newest snapshot", "s", 0, "Now − newest snapshot of all files"},
	"coveragePercent":    {"Coverage", "percent", 1, "100 · D / window: share of the window that snapshots cover"},
	"gpusSeen":           {"GPUs seen", "locale", 0, "GPUs in the newest snapshot of the window"},
	"gpusLost":           {"GPUs lost", "locale", 0, "GPUs seen in the 24 h before the newest snapshot and not in it"},
	"jobsLagSeconds":     {"Lag of job ads", "s", 0, "Now − newest job ad"},
	"linkRate":           {"Link rate", "percent", 1, "Share of ended backfill runs that a job ad explains"},
	"clockErrorSeconds":  {"Clock error", "s", 0, "Largest error of an access point's clock, as job ads and snapshots tell; dates are corrected"},

	"gpu": {"GPU", "", -1, "AssignedGPUs id"}, "gpus": {"GPUs", "locale", 0, "Number of GPUs"}, "gpuIds": {"GPU ids", "", -1, ""}, "memoryGB": {"Memory", "decgbytes", 0, "GPUs_GlobalMemoryMb / 1024"},
	"state": {"State", "", -1, ""}, "job": {"Job", "", -1, "GlobalJobId"}, "since": {"Since", "", -1, "Beginning of the unbroken sequence with the same state, user and job, at most 7 days back"},
	"projects": {"Projects", "", -1, ""}, "devices": {"Devices", "", -1, ""}, "lastSeen": {"Last seen", "", -1, ""}, "excludedReason": {"Excluded", "", -1, "Why the machine counts nowhere"},
	"backfillAllocated": {"Backfill allocated (avg.)", "locale", 1, "Σ claimed on backfill slots / N"},

	"count":               {"Periods", "locale", 0, "Number of complete periods"},
	"meanHours":           {"Mean", "h", 1, "Mean length of complete periods"},
	"medianHours":         {"Median", "h", 1, "Median length of complete periods"},
	"minHours":            {"Minimum", "h", 1, "Shortest complete period"},
	"maxHours":            {"Maximum", "h", 1, "Longest complete period"},
	"sdHours":             {"Standard deviation", "h", 1, "Sample standard deviation of complete periods"},
	"censored":            {"Censored", "locale", 0, "Periods whose end was not seen"},
	"unknownStart":        {"Unknown start", "locale", 0, "Periods whose start was not seen; in no statistics"},
	"kmMedianHours":       {"Kaplan–Meier median", "h", 1, "First age at which no more than half the periods go on; none: not reached"},
	"restrictedMeanHours": {"Restricted mean", "h", 1, "Area under the Kaplan–Meier curve to the longest age"},
	"used":                {"Used (avg.)", "locale", 1, "Pool GPUs with a backfill job, per snapshot"},
	"taken":               {"Taken (avg.)", "locale", 1, "Pool GPUs claimed on a primary slot, per snapshot"},
	"usedPercent":         {"Used %", "percent", 1, "100 · used / (used + available)"},
	"hours90":             {"90 % keep it for", "h", 1, "First hour at which the tenure curve is below 0.90"},
	"hours75":             {"75 % keep it for", "h", 1, "First hour at which the tenure curve is below 0.75"},
	"hours50":             {"50 % keep it for", "h", 1, "First hour at which the tenure curve is below 0.50"},
	"ended":               {"Ended", "locale", 0, "Complete periods that ended"},
	"survival":            {"Survival", "percentunit", 2, "Share that goes on beyond this age"},
	"low":                 {"95 % low", "percentunit", 2, "Lower bound of the 95 % interval"},
	"high":                {"95 % high", "percentunit", 2, "Upper bound of the 95 % interval"},
	"atRisk":              {"At risk", "locale", 0, "Periods or runs seen at this age"},

	"start": {"Start", "", -1, ""}, "end": {"End", "", -1, ""}, "hours": {"Hours", "h", 1, ""}, "endReason": {"Ended by", "", -1, ""}, "leftTruncated": {"Began earlier", "", -1, "True start more than 7 days before the window"},
	"link": {"Link", "", -1, "How a job ad was found"}, "from": {"From", "", -1, ""}, "to": {"To", "", -1, ""}, "outcome": {"Outcome", "", -1, ""}, "takenOverBy": {"Taken over by", "", -1, "RemoteOwner of the primary claim"},
	"time": {"Time", "", -1, ""}, "timeEnd": {"End", "", -1, ""}, "title": {"Title", "", -1, ""}, "text": {"Text", "", -1, ""}, "tags": {"Tags", "", -1, ""},
	"ranHours": {"Ran", "h", 1, "Length of the run"},

	"runs":                  {"Runs", "locale", 0, "Runs that overlap the window"},
	"evictions":             {"Evictions", "locale", 0, "Runs that ended in an eviction"},
	"completed":             {"Completed", "locale", 0, "Runs whose job completed"},
	"removed":               {"Removed", "locale", 0, "Runs whose job was removed"},
	"held":                  {"Held", "locale", 0, "Runs whose job was put on hold"},
	"running":               {"Running", "locale", 0, "Runs that go on at the window's end"},
	"lost":                  {"Lost", "locale", 0, "Runs that a gap or the machine's absence hides the end of"},
	"ambiguous":             {"Ambiguous", "locale", 0, "Runs without evidence; never counted as evictions"},
	"unseen":                {"Unseen", "locale", 0, "Runs between two snapshots, known from epoch ads only; counted in all other figures"},
	"ratePer100GpuHours":    {"Evictions per 100 GPU hours", "locale", 2, "100 · evictions / backfill GPU hours"},
	"rateLow":               {"Rate, 95 % low", "locale", 2, "Garwood interval"},
	"rateHigh":              {"Rate, 95 % high", "locale", 2, "Garwood interval"},
	"evictedPercent":        {"Evicted %", "percent", 1, "100 · evicted / (evicted + completed + removed + held)"},
	"medianHoursToEviction": {"Median to eviction", "h", 1, "Median length of evicted runs"},
	"lostGpuHours":          {"Lost GPU hours", "GPU h", 1, "GPU hours of evicted runs: an upper bound where jobs checkpoint"},
	"lostPercent":           {"Lost %", "percent", 1, "100 · lost GPU hours / backfill GPU hours"},

	"schedd": {"Access point", "", -1, "ScheddName"}, "gpuMemory": {"GPU memory asked for", "", -1, "Class of RequestGPUMemory"},
	"waits":            {"Waits", "locale", 0, "Waits that overlap the window"},
	"started":          {"Started", "locale", 0, "Waits that ended with a run of the job"},
	"left":             {"Left", "locale", 0, "Waits that ended otherwise: removed, held, or run where no snapshot shows it"},
	"medianWaitHours":  {"Median wait", "h", 1, "Kaplan–Meier: first age at which no more than half still wait; none: not reached"},
	"p90WaitHours":     {"90 % wait at most", "h", 1, "Kaplan–Meier: first age at which no more than a tenth still waits; none: not reached"},
	"meanWaitHours":    {"Mean wait (started)", "h", 1, "Plain mean of the waits that ended with a run, as XDMoD counts them"},
	"expansionFactor":  {"Expansion factor", "locale", 2, "Σ (wait + run) / Σ run, weighted by GPUs, of jobs whose run has ended"},
	"waitingJobs":      {"Waiting jobs (avg.)", "locale", 1, "Jobs in a wait, on average over the time between polls"},
	"waitingGpus":      {"Waiting GPUs (avg.)", "locale", 1, "GPUs that waiting jobs ask for, on average over the time between polls"},
	"waitingUsers":     {"Waiting users (avg.)", "locale", 1, "Users with a waiting job, on average over the time between polls"},
	"oldestHours":      {"Oldest wait", "h", 1, "Longest wait of the jobs that the newest poll saw idle"},
	"freeWhileWaiting": {"Free while waiting (avg.)", "locale", 1, "Free GPUs that waiting jobs could have taken by number and memory: an upper bound"},
	"cpus":             {"CPUs", "locale", 0, "RequestCPUs"}, "memoryGb": {"Memory", "decgbytes", 0, "RequestMemory / 1024"}, "gpuMemoryGb": {"GPU memory", "decgbytes", 0, "RequestGPUMemory / 1024; none: any"},
	"attempts": {"Attempts", "locale", 0, "Runs of the job that began before this wait"},
	"freeNow":  {"Free now", "locale", 0, "GPUs free in the newest slice that have the memory that the job asks for"},
}
