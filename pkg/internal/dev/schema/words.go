package schema

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

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
	{"jobProjects", "Projects of jobs", "Projects of the jobs that hold the GPUs, from the queue files", "jobProject"},
	{"ownGpus", "Own GPUs", "What the GPUs with priority for the job's projects did when its wait began", "ownGpus"},
	{"usedMemory", "Used GPU memory", "Class of the GPU memory that a run used at most", "usedMemory"},
	{"reasons", "Reasons", "Why a GPU is unused", ""},
	{"idle", "Idle only", "Only machines on which nothing was claimed on primary slots", ""},
}

// DimensionWords are the dimensions of a fleet, of which a pool has all but the first, as people read them.
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
	{Name: "jobProject", Label: "Projects of jobs", Description: "Those of the jobs in the queue files"},
	{Name: "ownGpus", Label: "Own GPUs", Description: "What owners' GPUs did when waits of their jobs began"},
	{Name: "usedMemory", Label: "Used GPU memory", Description: "Classes of the memory that runs used at most"},
}

// DurationWords are the durations as people read them.
var DurationWords = []Word{
	{Name: "tenure", Label: "Tenure", Description: "How long a GPU stays in the backfill pool, used or free"},
	{Name: "vacancy", Label: "Vacancy", Description: "How long a GPU stays free"},
}

// BucketWords are the words of the field `bucket` that are not lengths of time.
var BucketWords = []Word{
	{Name: "auto", Label: "Auto", Description: "Fits the panel; the whole time range in alert rules"},
	{Name: "window", Label: "Whole range", Description: "One value for the time range"},
}

// Metrics returns the metrics of all views of a kind, each once.
func Metrics(k *query.Kind) (names []string) {
	for i := range k.Views {
		for _, m := range k.Views[i].Metrics {
			if !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names
}

// Metric describes a metric as the first view that has it does.
func Metric(k *query.Kind, name string) query.Column {
	i := slices.IndexFunc(k.Views, func(v query.View) bool { return slices.Contains(v.Metrics, name) })
	if i < 0 {
		return k.Column(&query.View{}, name)
	}
	return k.Column(&k.Views[i], name)
}
