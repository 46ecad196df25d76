package report

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
