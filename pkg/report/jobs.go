package report

import (
	"context"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
)

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
		{"jobs", "Jobs of the project", "GPU hours of the jobs with this project on any machine, by the queue files that the " +
			"collector writes.", []part{
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

// askJobs asks for the sections about jobs.
func (r *Owner) askJobs(ctx context.Context, window backend.TimeRange) (err error) {
	var queries []query
	for _, s := range r.jobs {
		for _, p := range s.parts {
			queries = append(queries, p.query)
		}
	}
	r.jobsTold, err = r.options.answersTo(ctx, r.source, window, queries...)
	return err
}

// addJobs adds the sections about jobs to a report.
func (r *Owner) addJobs(made *Report) {
	answers, told := r.jobsTold, slices.Clone(made.Notices)
	for _, s := range r.jobs {
		section := Section{Key: s.key, Title: s.title, About: s.about}
		for _, p := range s.parts {
			block := r.options.block(p, answers[0])
			if answers = answers[1:]; block.Error != "" {
				made.Failed++
			}
			block.Notices = slices.DeleteFunc(block.Notices, func(n string) bool { return slices.Contains(told, n) })
			told = append(told, block.Notices...)
			section.Blocks = append(section.Blocks, block)
		}
		made.Sections = append(made.Sections, section)
	}
}
