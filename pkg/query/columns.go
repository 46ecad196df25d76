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
	Holds       Holds
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
func NameColumn(holds Holds, name, label, description string) Column {
	c := TextColumn(name, label, description)
	c.Holds = holds
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

// Groupings are all groupings. Formulas of kinds: methodology sections 5 to 15; N = slices with a snapshot, D = covered
// hours.
var Groupings = []Column{
	TextColumn("pool", "Pool", "HTCondor pool, as its facts name it"),
	TextColumn("category", "Category", "The six categories of slots"),
	TextColumn("slots", "Slots", "Real or backfill"),
	TextColumn("device", "Device", "Model of the GPU"),
	TextColumn("memory", "Memory", "Class of the GPU's memory"),
	TextColumn("tier", "Tier", "Performance tier of the GPU"),
	TextColumn("machine", "Machine", "Name of the machine, as the pool reports it"),
	TextColumn("machineType", "Machine type", "Priority: owned by researchers or CHTC; Shared: open capacity"),
	TextColumn("ownership", "Ownership", "Researcher owned, CHTC owned or open capacity"),
	TextColumn("project", "Project", "Projects with priority on the machine"),
	TextColumn("preventReason", "Prevented by", "PreventJobsReason of GPUs that take no jobs"),
	NameColumn(Users, "user", "User", "Who holds the GPUs"),
	TextColumn("cause", "Cause", "Why runs were evicted"),
	TextColumn("evidence", "Evidence", "What the outcome is based on"),
	TextColumn("schedd", "Access point", "Where the job was submitted"),
	TextColumn("gpus", "GPUs", "Number of requested GPUs"),
	TextColumn("gpuMemory", "GPU memory", "Class of the requested GPU memory"),
}

// SharedColumns mean the same in all kinds.
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
}, Groupings...)

// Word is a word of the query model as people read it.
type Word struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Dimension   string `json:"dimension,omitempty"` // of a filter: that whose values it takes, "" none
}

// FilterWords are the fields of the filter, in their order.
var FilterWords = []Word{
	{"pools", "Pools", "HTCondor pools (fleet data sources only)", "pool"},
	{"categories", "Categories", "Real and backfill slots by the ownership of their machines", "category"},
	{"slots", "Slots", "Real slots, or backfill slots", "slots"},
	{"devices", "Devices", "Models of GPUs", "device"},
	{"machines", "Machines", "Names of machines, as the pool reports them", "machine"},
	{"ownerships", "Ownership", "Of machines: researcher owned, CHTC owned or open capacity", "ownership"},
	{"projects", "Projects", "Projects with priority on the machine", "project"},
	{"users", "Users", "Who holds the GPUs", "user"},
	{"memories", "Memory", "Classes of GPU memory", "memory"},
	{"takenOverBy", "Taken over by", "Who held the GPUs on primary slots after an eviction", "takenOverBy"},
	{"tiers", "Tiers", "Performance tiers", "tier"},
	{"schedds", "Access points", "Where jobs were submitted", "schedd"},
	{"gpus", "GPUs", "Number of GPUs that jobs ask for", ""},
	{"gpuMemory", "GPU memory", "Class of the GPU memory that jobs ask for", ""},
	{"reasons", "Reasons", "Why a GPU is unused", ""},
	{"idle", "Idle only", "Only machines on which nothing was claimed on primary slots", ""},
}

// DimensionWords are the Dimensions, and those of a fleet, as people read them.
var DimensionWords = []Word{
	{Name: "pool", Label: "Pools", Description: "HTCondor pools that have published facts"},
	{Name: "category", Label: "Categories"},
	{Name: "slots", Label: "Slots", Description: "Real or backfill"},
	{Name: "device", Label: "Devices", Description: "Models of GPUs"},
	{Name: "machine", Label: "Machines"},
	{Name: "ownership", Label: "Ownerships"},
	{Name: "project", Label: "Projects"},
	{Name: "user", Label: "Users"},
	{Name: "takenOverBy", Label: "Taken over by", Description: "Who took GPUs back from backfill jobs"},
	{Name: "memory", Label: "Memory", Description: "Classes of GPU memory"},
	{Name: "tier", Label: "Tiers", Description: "Classes of GPUs by performance"},
	{Name: "schedd", Label: "Access points", Description: "Those whose queues are polled, with jobs that waited"},
}

// DurationWords are the Durations as people read them.
var DurationWords = []Word{
	{Name: "tenure", Label: "Tenure", Description: "How long a GPU stays in the backfill pool, used or free"},
	{Name: "vacancy", Label: "Vacancy", Description: "How long a GPU stays free"},
}

// BucketWords are the words of the field `bucket` that are not lengths of time.
var BucketWords = []Word{
	{Name: bucketAuto, Label: "Auto", Description: "Fits the panel; the whole time range in alert rules"},
	{Name: bucketWindow, Label: "Whole range", Description: "One value for the time range"},
}
