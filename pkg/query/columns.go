package query

// Column describes a column of answers: a metric, a grouping, or a field of a list. Tables keep the column's own name;
// the readable one is only displayed.
type Column struct {
	Name, Label string
	// Unit is Grafana's. "locale" is a number with separators, never in thousands; "GPU h" stays GPU hours and never
	// becomes weeks.
	Unit        string
	Decimals    int // -1: as needed
	Description string
	Names       NameKind
}

// Metric is a column of numbers.
func Metric(name, label, unit string, decimals int, description string) Column {
	return Column{Name: name, Label: label, Unit: unit, Decimals: decimals, Description: description}
}

// TextColumn is a column of texts or times.
func TextColumn(name, label, description string) Column {
	return Column{Name: name, Label: label, Decimals: -1, Description: description}
}

// NameColumn is a column that names users or jobs: its values go through Plan.Shown.
func NameColumn(names NameKind, name, label, description string) Column {
	c := TextColumn(name, label, description)
	c.Names = names
	return c
}

// Units.
const (
	Count    = "locale"
	Percent  = "percent"
	Hours    = "h"
	Seconds  = "s"
	GPUHours = "GPU h"
	Share    = "percentunit"
)

// SharedColumns mean the same in all kinds: N = slices with a snapshot, D = covered hours.
var SharedColumns = append([]Column{
	TextColumn("rowType", "Row", ""),
	TextColumn("gpu", "GPU", "AssignedGPUs id"),
	Metric("gpus", "GPUs", Count, 0, "Number of GPUs"),
	TextColumn("gpuIds", "GPU ids", ""),
	Metric("memoryGB", "Memory", "decgbytes", 0, "GPUs_GlobalMemoryMb / 1024"),
	NameColumn(Jobs, "job", "Job", "GlobalJobId"),
	TextColumn("start", "Start", ""),
	TextColumn("end", "End", ""),
	Metric("hours", "Hours", Hours, 1, ""),
	TextColumn("link", "Link", "How a job ad was found"),
	TextColumn("outcome", "Outcome", ""),
	TextColumn("time", "Time", ""),
	TextColumn("timeEnd", "End", ""),
	TextColumn("title", "Title", ""),
	TextColumn("text", "Text", ""),
	TextColumn("tags", "Tags", ""),
	Metric("survival", "Survival", Share, 2, "Share still ongoing at this age"),
	Metric("low", "95% low", Share, 2, "Lower bound of the 95% interval"),
	Metric("high", "95% high", Share, 2, "Upper bound of the 95% interval"),
	Metric("atRisk", "At risk", Count, 0, "How many the curve rests on at this age"),
}, groupingColumns()...)

func groupingColumns() (columns []Column) {
	for g := range Groupings {
		columns = append(columns, Groupings[g].Column)
	}
	return columns
}
