package report

import (
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// section defines the report's section about one subject.
type section struct {
	key, title, about string
	parts             []part
}

// part is a query and how its answer is laid out, or paragraphs.
type part struct {
	caption    string
	query      query
	lay        func(Options, data.Frames) Block // nil: as a table
	empty      string                           // text if there is no row
	paragraphs []string
}

// query is a query of the data source.
type query map[string]any

// ask makes a query of a kind and view from names and values in turn.
func ask(kind, view string, more ...any) query {
	q := query{"queryType": kind, "view": view}
	for pair := range slices.Chunk(more, 2) {
		q[pair[0].(string)] = pair[1]
	}
	return q
}

type (
	names  = []string
	filter = map[string]any
)

var (
	slotFigures     = names{"allocatedPercent", "allocated", "available", "free", "drained", "prevented"}
	backfillFigures = names{"allocatedPercent", "allocated", "available", "drained", "prevented"}
	lengthFigures   = names{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "kmMedianHours",
		"censored", "unknownStart"}
	useFigures     = names{"available", "used", "taken", "usedPercent", "hours90", "hours75", "hours50"}
	outcomeFigures = names{"runs", "evictions", "yielded", "completed", "removed", "held", "running", "lost",
		"ambiguous"}
	evictionFigures = names{"lostGpuHours", "evictedGpuHours", "checkpointedPercent", "lostPercent", "ratePer100GpuHours",
		"rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction"}
	waitFigures = names{"waits", "started", "left", "medianWaitHours", "p90WaitHours", "meanWaitHours",
		"expansionFactor", "waitingJobs", "waitingGpus", "oldestHours", "freeWhileWaiting"}
	idleFigures = names{"idleGpuHours", "idlePercent", "utilizationPercent", "heldGpuHours", "measuredPercent",
		"idleRuns"}
	causeFigures = names{"evictions", "ratePer100GpuHours", "medianHoursToEviction", "lostGpuHours", "evictedGpuHours",
		"checkpointedPercent"}
	lossFigures = names{"evictions", "lostGpuHours", "evictedGpuHours", "checkpointedPercent"}
)

var (
	realSlots     = filter{"slots": names{"Real"}}
	backfillSlots = filter{"slots": names{"Backfill"}}
)

// atMachines are columns of machines that a section on others of them leaves out.
var atMachines = names{"wholeGpus", "migParts", "preventReasons", "preventState", "preventLastSeen"}

// Texts for parts without a row.
const (
	noRun    = "No job ran on a backfill slot."
	noUnused = "No GPU is unused, or the queues are not polled."
	noPoll   = "No job waited, or the queues are not polled."
)

// sections in their order.
var sections = []section{
	{"real", "Primary slots", "The owners' slots: GPUs that jobs hold (allocated), that can be allocated (available), " +
		"and that are unused (free), on average over the period.", []part{
		{caption: "Primary slots by category",
			query: summary("allocation", names{"category"}, slotFigures, "filter", realSlots)},
	}},
	{"backfill", "Backfill slots", "Slots on GPUs that their owners leave unused. A GPU that its owner uses is not " +
		"available here, so primary and backfill slots are never added.", []part{
		{caption: "Backfill slots by category",
			query: summary("allocation", names{"category"}, backfillFigures, "filter", backfillSlots)},
	}},
	{"usage", "GPUs in use over time", "A GPU is in use in one category at a time.", []part{
		{caption: "GPUs in use, by category", query: ask("allocation", "timeseries", "groupBy", names{"category"}, "metrics",
			names{"allocated"}), lay: allocationChart},
	}},
	{"memory", "By memory category", "", []part{
		{caption: "Primary slots by GPU memory", lay: table("slots"),
			query: summary("allocation", names{"memory"}, slotFigures, "filter", realSlots)},
		{caption: "Backfill slots by GPU memory", lay: table("slots"),
			query: summary("allocation", names{"memory"}, backfillFigures, "filter", backfillSlots)},
	}},
	{"h200", "H200 usage by slot type and user", "", []part{
		{caption: "GPU hours on H200 GPUs", query: ask("userHours", "summary", "groupBy", names{"category"}, "filter",
			filter{"devices": names{`/\bH200\b/`}}), lay: users, empty: "Nobody used an H200 GPU."},
	}},
	{"users", "Backfill usage by slot type and user", "", []part{
		{caption: "Backfill hours by user", lay: userChart, empty: "Nobody used a backfill slot.",
			query: ask("userHours", "summary", "groupBy", names{}, "filter", backfillSlots)},
		{caption: "GPU hours on backfill slots", lay: users, empty: "Nobody used a backfill slot.",
			query: ask("userHours", "summary", "groupBy", names{"category"}, "filter", backfillSlots)},
	}},
	{"devices", "Usage by device", "", []part{
		{caption: "GPUs by category and device", query: summary("allocation", names{"category", "device"}, slotFigures),
			lay: grouped},
	}},
	{"availability", "Backfill availability", "How long a GPU stays free for backfill: complete periods that ended in " +
		"the period of the report. Periods whose end was not seen are censored; the Kaplan-Meier median counts them too.",
		[]part{
			{caption: "Availability periods by device", query: summary("backfillAvailability", names{"device"}, lengthFigures)},
			{caption: "Availability periods by machine type", query: summary("backfillAvailability", names{"machineType"},
				lengthFigures)},
		}},
	{"utilization", "Backfill utilization and transitions", "Of the GPUs that backfill may use: available, used by a " +
		"backfill job, or taken by the owner; and how long a GPU stays with backfill (tenure) before its owner takes it.",
		[]part{
			{caption: "Utilization and tenure by device", query: summary("backfillAvailability", names{"device"}, useFigures)},
			{caption: "Utilization and tenure by machine type",
				query: summary("backfillAvailability", names{"machineType"}, useFigures)},
			{caption: "Share of GPUs still with backfill after a number of hours",
				query: ask("backfillAvailability", "survival", "groupBy", names{"machineType"}, "duration", "tenure"),
				lay:   survivalChart, empty: "Too few tenures for a curve."},
			{caption: "Changes of state between consecutive snapshots",
				query: ask("backfillAvailability", "transitions", "groupBy", names{}), lay: transitions},
		}},
	{"jobLength", "How long a backfill job can be", "Measured from the start of actual backfill runs to the end of the " +
		"time that the GPU stayed with backfill. An evicted job starts over unless it saves checkpoints: GPU hours are its " +
		"total cost until it finishes, with 5 minutes for each checkpoint.", []part{
		{caption: "In short", query: ask("backfillAvailability", "advice", "groupBy", names{"device"}),
			lay: adviceSentences, empty: noRun},
		{caption: "Jobs by length in hours and device", query: ask("backfillAvailability", "jobLength", "groupBy",
			names{"device"}, "jobHours", []float64{1, 4, 12}), lay: table("longestHours90", "longestHours75", "longestHours50"),
			empty: noRun},
	}},
	{"evictions", "Evictions of backfill jobs", "How the runs of backfill jobs ended. Rates count evictions per 100 GPU " +
		"hours of backfill, with a 95% interval. Lost GPU hours count from the last checkpoint that a job saved; evicted " +
		"GPU hours count the whole runs. Jobs that yield have saved their work and lose nothing.", []part{
		{caption: "Outcomes by slot type", query: summary("evictions", names{"category"}, outcomeFigures)},
		{caption: "Eviction measures by slot type", query: summary("evictions", names{"category"}, evictionFigures)},
		{caption: "Eviction measures by device", query: summary("evictions", names{"device"}, evictionFigures)},
		{caption: "Evictions by cause", query: summary("evictions", names{"cause"}, causeFigures),
			empty: "No eviction was seen."},
		{caption: "Lost GPU hours by user, and who took the GPUs over", query: summary("evictions", names{"user",
			"takenOverBy"}, lossFigures), lay: largest("lostGpuHours", 20), empty: "No eviction cost anything."},
		{caption: "Jobs that are evicted again and again", query: ask("evictions", "jobs", "limit", 20),
			lay:   where(func(r record) bool { return r.number("evictions") > 0 }),
			empty: "No job was evicted."},
	}},
	{"demand", "Waiting for GPUs", "How long jobs that ask for GPUs waited in the queues that are polled; medians " +
		"include waits that were still going on. GPUs that were free while jobs waited had the number and the memory to " +
		"run them (an upper bound): if there are many, something other than GPUs is missing.", []part{
		{caption: "Waits by requested GPU memory", query: summary("demand", names{"gpuMemory"}, waitFigures), empty: noPoll},
		{caption: "Waits by number of requested GPUs", query: summary("demand", names{"gpus"}, waitFigures), empty: noPoll},
		{caption: "Waits by user", query: summary("demand", names{"user"}, waitFigures), empty: noPoll},
		{caption: "Share of jobs still waiting after a number of hours",
			query: ask("demand", "survival", "groupBy", names{"gpuMemory"}), lay: survivalChart,
			empty: "Too few waits for a curve."},
		{caption: "The longest waits", query: ask("demand", "waiting", "limit", 20), lay: table("schedd"),
			empty: "No job waits."},
		{caption: "Why jobs wait", query: ask("demand", "obstacles", "metrics", names{"waitingGpus"}, "bucket", "window"),
			lay: averages("Obstacle", "Waiting GPUs"), empty: noPoll},
		{caption: "Why GPUs are unused", query: ask("demand", "unused", "bucket", "window"),
			lay: averages("Reason", "Unused GPUs"), empty: noUnused},
		{caption: "Unused GPUs by machine at the newest poll, what is missing there, and how many jobs it would serve",
			query: ask("demand", "unusedNow", "limit", 20), empty: noUnused},
	}},
	{"idleHours", "What the idle hours would have been worth",
		"GPU hours in which a job held GPUs and computed nothing for 30 minutes or more: others could have used them. " +
			"Utilization is the busy share of the measured GPU hours, as machines report it (GPUsAverageUsage).", []part{
			{caption: "Idle GPU hours by user", query: summary("utilization", names{"user"}, idleFigures),
				lay: largest("idleGpuHours", 20), empty: "No held GPU was idle, or nothing was measured."},
			{caption: "Idle GPU hours by project", query: summary("utilization", names{"project"}, idleFigures),
				lay: largest("idleGpuHours", 20), empty: "No held GPU was idle, or nothing was measured."},
		}},
	{"failures", "Machines on which jobs fail", "Runs that failed within 10 minutes, compared with what the same " +
		"users' runs do on other machines. A suspect has far more failures than expected, of more than one user.", []part{
		{caption: "Suspect machines", query: ask("utilization", "failures"),
			lay:   where(func(r record) bool { return r.number("suspect") > 0 }, "suspect"),
			empty: "No machine is suspect."},
	}},
	{"idle", "Machines with nothing claimed on primary slots", "", []part{
		{caption: "Machines without a primary job in the whole period",
			query: ask("allocation", "machines", "filter", filter{"idle": true}),
			lay:   table(append(names{"allocated", "allocatedPercent", "excludedReason", "drainedGpuHours"}, atMachines...)...),
			empty: "Every machine had a primary job."},
	}},
	{"drained", "Drained GPUs", "", []part{
		{caption: "Machines with drained GPUs", query: ask("allocation", "machines"),
			lay: where(func(r record) bool { return r.number("drained") > 0 },
				append(names{"projects", "allocatedPercent", "excludedReason"}, atMachines...)...),
			empty: "No GPU was drained."},
	}},
	{"excluded", "Excluded hosts", "These machines are left out of all figures in this report.", []part{
		{caption: "Excluded hosts and the reasons", query: ask("allocation", "machines"),
			lay: where(func(r record) bool { return r.text("excludedReason") != "" },
				append(names{"ownership", "projects", "gpus", "allocated", "allocatedPercent", "backfillAllocated", "drained",
					"drainedGpuHours"}, atMachines...)...),
			empty: "No host is excluded."},
	}},
	{"machines", "Machines", "", []part{
		{caption: "Machines by owner", query: ask("allocation", "machines"), lay: machineLists,
			empty: "No machine has a GPU."},
	}},
	{"gaps", "Gaps in the data", "Times without a snapshot: nothing is known about them, and nothing is filled in.",
		[]part{{caption: "Gaps", query: ask("allocation", "annotations"), lay: table("title", "tags"),
			empty: "There is no gap."}}},
	{"methodology", "Methodology", "", []part{{paragraphs: names{
		"A snapshot lists every slot with a GPU at one time. The period is divided into slices of fixed length; slices " +
			"without a snapshot are not zeros: they do not exist. All averages are over the slices with a snapshot (N).",
		"A GPU counts once per slice. Its primary state is Claimed if any primary slot with it is Claimed in the slice, " +
			"otherwise Unclaimed, otherwise Drained. A GPU that is claimed on a primary slot is removed from backfill for the " +
			"whole slice.",
		"Allocated (avg.) is the sum of claimed GPUs / N, Available (avg.) is the sum of claimed and unclaimed ones / N, " +
			"and Allocated % = 100 x allocated / available. Free GPUs have no job on either side and accept one. Drained and " +
			"prevented GPUs have their own figures.",
		"Machines are CHTC owned if CHTC lists them, researcher owned if one of their primary slots has prioritized " +
			"projects, and open capacity otherwise. A primary slot is classified by itself, a backfill slot by its machine.",
		"GPU hours of a user are the average number of GPUs times the covered hours (D): a missed snapshot is averaged " +
			"over, but an outage is not filled in. Two users of one GPU in a slice share it.",
		"An availability period begins when a GPU becomes available for backfill, and ends when a backfill job starts, the " +
			"owner takes it, or it leaves. Job records give both ends to the second. Statistics cover complete periods; " +
			"survival curves count the others as censored.",
		"A run of a backfill job counts as evicted if its job record says so, if a primary slot held one of its GPUs at " +
			"its end, or if the job ran again later. Runs without such evidence are ambiguous and never count as evictions.",
	}}}},
}

// summary asks for a table of a kind by groups, with totals.
func summary(kind string, groupBy, metrics names, more ...any) query {
	return ask(kind, "summary", append(more, "groupBy", groupBy, "metrics", metrics, "totals", true)...)
}

// unknown is the text of a group without a value.
const unknown = "Unknown"

// guaranteeFigures compare waits that begin while backfill holds own GPUs with others.
var guaranteeFigures = names{"waits", "started", "medianWaitHours", "withinPercent", "startedOnOwnPercent"}

// sectionsOfJobs are about the jobs that have a project, on any machine: what they held, lost and waited for, and what
// lending cost the project if it owns GPUs.
func sectionsOfJobs(project string) []section {
	held, waited := filter{"jobProjects": names{literal(project)}}, filter{"projects": names{literal(project)}}
	return []section{
		{"guarantee", "What lending cost", "The waits of the project's jobs by what its own GPUs did when they began: " +
			"enough of them were free, or would have been without the backfill jobs on them, or were busy. Started within: " +
			"the share that started within 10 minutes.", []part{
			{caption: "Waits by own GPUs", query: summary("demand", names{"ownGpus"}, guaranteeFigures, "filter", waited),
				empty: noPoll},
		}},
		{"jobs", "Jobs of the project", "GPU hours of the jobs with this project on any machine, by the queue files that " +
			"the collector writes.", []part{
			{caption: "GPU hours by slot type and user", query: ask("userHours", "summary", "groupBy", names{"category"},
				"filter", held), lay: users, empty: "Nothing was used."},
			{caption: "GPU hours by device and user", query: ask("userHours", "summary", "groupBy", names{"device"},
				"filter", held), lay: users, empty: "Nothing was used."},
			{caption: "What evictions cost", query: summary("evictions", names{"user"}, lossFigures, "filter", held),
				empty: noRun},
			{caption: "Waits by requested GPU memory", query: summary("demand", names{"gpuMemory"}, waitFigures, "filter",
				waited), empty: noPoll},
		}},
	}
}
