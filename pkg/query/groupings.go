package query

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// Grouping is what figures are grouped by, and what the values of filters and dimensions are of: its number in
// [Groupings].
type Grouping int

// The groupings, in the order of filters and dimensions. Their values are numbers: see [Declaration.Text].
const (
	ByCategory      Grouping = iota // pool.Category
	BySlots                         // pool.Side
	ByDevice                        // a symbol, as other values of which nothing else is said
	ByMachine                       //
	ByOwnership                     // pool.Ownership
	ByProject                       //
	ByUser                          //
	ByTakenOver                     // symbol + 1 of the user who took over, who may have no name; 0: none did
	ByMemory                        // index in pool.MemoryClasses
	ByTier                          // index in pool.Lists.TierNames
	BySchedd                        //
	ByGPUs                          // index in GPUCounts
	ByGPUMemory                     // index in GPUMemories
	ByReason                        // index in Reasons
	ByPool                          // a text of facts
	ByMachineType                   // 1: open capacity
	ByPreventReason                 //
	ByCause                         // index in pool.Causes
	ByEvidence                      // index in pool.Evidences
	ByObstacle                      // index in Obstacles
	ByJobProject                    // symbol + 1 of the list of projects of the job; 0: it is not known
	ByOwnGPUs                       // index in OwnGPUs
	ByUsedMemory                    // index in UsedMemories
	ByAttribution                   // how the projects of the job are known: it only divides hours
	NumGroupings                    // their number
)

// Declaration is a grouping with everything that depends on it: columns, filters, dimensions, the schema of the editor,
// and the fields of facts follow from it. What it is read from is in timeline.Place, or in a function that makes keys
// (pkg/aggregate).
type Declaration struct {
	Column // its name and words
	// Values are the texts of values that are indices, in their order; nil: those of a symbol, unless Text says otherwise.
	Values []string
	Text   func(value uint32, lists pool.Lists, names []string) string
	Shown  map[string]string // the words for values that do not speak for themselves
	Beside string            // every kind that knows this grouping knows the declared one, too, right after it
	OfGPU  bool              // it chooses GPUs, before the slice rules; the others choose among the results after them
	// Fact is the field of facts that it is read from, "" if facts do not distinguish it, and OfFact the text of what the
	// field holds, if that is another one.
	Fact   string
	OfFact func(stored string) string
	// Filter is the list of a filter that chooses its values, and Dimension says how they are listed; without a label
	// there is none.
	Filter, Dimension Words

	list   func(*Filter) *[]string
	closed []string // what the list takes; nil: Values, or anything
	match  func(s *Selection, stored string) bool
}

// OfGPU reports whether a grouping is of GPUs.
func (g Grouping) OfGPU() bool { return Groupings[g].OfGPU }

// Words are a name as the editor shows it.
type Words struct{ Name, Label, Description string }

// Groupings are the groupings by their numbers. Formulas of kinds: methodology sections 5 to 15.
var Groupings = [NumGroupings]Declaration{
	ByCategory: {Column: TextColumn("category", "Category", "The six categories of slots"), Fact: "category",
		Values: each(pool.Categories, func(i int) string { return pool.Category(i).String() }), OfFact: categoryName,
		Filter: Words{"categories", "Categories", "Primary and backfill slots by the ownership of their machines"},
		list:   func(f *Filter) *[]string { return &f.Categories }, match: (*Selection).matchCategory,
		closed: each(pool.Categories, func(i int) string {
			return pool.Category(i).Key() + " (" + pool.Category(i).String() + ")"
		}), Dimension: Words{Label: "Categories"}},
	BySlots: {Column: TextColumn("slots", "Slots", "Real or backfill"), Fact: "slots",
		Values:    []string{pool.Primary.String(), pool.Backfill.String()},
		Filter:    Words{"slots", "Slots", "Primary slots (Real), or backfill slots"},
		list:      func(f *Filter) *[]string { return &f.Slots },
		Dimension: Words{Label: "Slots", Description: "Real or backfill"}},
	ByDevice: {Column: TextColumn("device", "Device", "Model of the GPU"), OfGPU: true, Fact: "device",
		Filter: Words{"devices", "Devices", "Models of GPUs"}, list: func(f *Filter) *[]string { return &f.Devices },
		match:     (*Selection).matchDevice,
		Dimension: Words{Label: "Devices", Description: "Models of GPUs"}},
	ByMachine: {Column: TextColumn("machine", "Machine", "Name of the machine, as the pool reports it"), OfGPU: true,
		Filter: Words{"machines", "Machines", "Names of machines, as the pool reports them"},
		list:   func(f *Filter) *[]string { return &f.Machines }, Dimension: Words{Label: "Machines"}},
	ByOwnership: {Column: TextColumn("ownership", "Ownership", "Researcher owned, CHTC owned or open capacity"),
		OfGPU: true, Fact: "ownership",
		Values: each(pool.Ownerships, func(i int) string { return pool.Ownership(i).String() }),
		Filter: Words{"ownerships", "Ownership", "Of machines: researcher owned, CHTC owned or open capacity"},
		list:   func(f *Filter) *[]string { return &f.Ownerships }, Dimension: Words{Label: "Ownerships"}},
	ByProject: {Column: TextColumn("project", "Project", "Projects with priority on the machine"), Fact: "project",
		Filter: Words{"projects", "Projects", "Projects with priority on the machine"},
		list:   func(f *Filter) *[]string { return &f.Projects }, match: projectsOf(ByProject),
		Dimension: Words{Label: "Projects"}},
	ByUser: {Column: NameColumn(Users, "user", "User", "Who holds the GPUs"), Fact: "user",
		Filter: Words{"users", "Users", "Who holds the GPUs"}, list: func(f *Filter) *[]string { return &f.Users },
		match: (*Selection).matchUser, Dimension: Words{Label: "Users"}},
	ByTakenOver: {Column: NameColumn(Users, "takenOverBy", "Taken over by", "RemoteOwner of the primary claim"),
		Text:   func(v uint32, _ pool.Lists, names []string) string { return names[v-1] },
		Filter: Words{"takenOverBy", "Taken over by", "Who held the GPUs on primary slots after an eviction"},
		list:   func(f *Filter) *[]string { return &f.TakenOver }, match: (*Selection).matchTakenOver,
		Dimension: Words{Label: "Taken over by", Description: "Who took GPUs back from backfill jobs"}},
	ByMemory: {Column: TextColumn("memory", "Memory", "Class of the GPU's memory"), OfGPU: true, Fact: "memory",
		Values: pool.MemoryClasses,
		Filter: Words{"memories", "Memory", "Classes of GPU memory"}, list: func(f *Filter) *[]string { return &f.Memories },
		Dimension: Words{Label: "Memory", Description: "Classes of GPU memory"}},
	ByTier: {Column: TextColumn("tier", "Tier", "Performance tier of the GPU"), Beside: "memory", OfGPU: true,
		Fact:   "tier",
		Text:   func(v uint32, lists pool.Lists, _ []string) string { return lists.TierNames()[v] },
		Filter: Words{"tiers", "Tiers", "Performance tiers"}, list: func(f *Filter) *[]string { return &f.Tiers },
		Dimension: Words{Label: "Tiers", Description: "Classes of GPUs by performance"}},
	BySchedd: {Column: TextColumn("schedd", "Access point", "Where the job was submitted"), Fact: "schedd",
		Filter: Words{"schedds", "Access points", "Where jobs were submitted"},
		list:   func(f *Filter) *[]string { return &f.Schedds },
		Dimension: Words{Label: "Access points", Description: "Those whose queues are polled, with jobs that " +
			"waited"}},
	ByGPUs: {Column: TextColumn("gpus", "GPUs", "Number of requested GPUs"), Fact: "gpus", Values: GPUCounts,
		Filter: Words{"gpus", "GPUs", "Number of GPUs that jobs ask for"},
		list:   func(f *Filter) *[]string { return &f.GPUs }},
	ByGPUMemory: {Column: TextColumn("gpuMemory", "GPU memory", "Class of the requested GPU memory"), Fact: "gpuMemory",
		Values: GPUMemories,
		Filter: Words{"gpuMemory", "GPU memory", "Class of the GPU memory that jobs ask for"},
		list:   func(f *Filter) *[]string { return &f.GPUMemory }},
	ByReason: {Column: TextColumn("reason", "Reason", "Why a GPU is unused; fits: a waiting job would fit"),
		Values: Reasons, Shown: map[string]string{"prevented": "No jobs wanted", "drained": "Drained",
			"other": "Another state", "fits": "A waiting job would fit", "cpus": "CPUs are used up",
			"memory": "Memory is used up", "shape": "Too few on the machine", "gpuMemory": "Too little GPU memory",
			"noDemand": "No demand"},
		Filter: Words{"reasons", "Reasons", "Why a GPU is unused"}, list: func(f *Filter) *[]string { return &f.Reasons }},
	ByPool: {Column: TextColumn("pool", "Pool", "HTCondor pool, as its facts name it"), Fact: "pool",
		Filter:    Words{"pools", "Pools", "HTCondor pools (fleet data sources only)"},
		list:      func(f *Filter) *[]string { return &f.Pools },
		Dimension: Words{Label: "Pools", Description: "HTCondor pools that have published facts"}},
	ByMachineType: {Column: TextColumn("machineType", "Machine type",
		"Priority: owned by researchers or CHTC; Shared: open capacity"), Fact: "ownership", OfFact: machineType,
		Values: []string{pool.ResearcherOwned.MachineType(), pool.OpenCapacity.MachineType()}},
	ByPreventReason: {Column: TextColumn("preventReason", "Prevented by",
		"PreventJobsReason of GPUs that take no jobs")},
	ByCause: {Column: TextColumn("cause", "Cause", "Why runs were evicted"), Fact: "cause",
		Text: func(v uint32, _ pool.Lists, _ []string) string { return pool.Causes[v] }},
	ByEvidence: {Column: TextColumn("evidence", "Evidence", "What the outcome is based on"), Fact: "evidence",
		Text: func(v uint32, _ pool.Lists, _ []string) string { return pool.Evidences[v] }},
	ByObstacle: {Column: TextColumn("obstacle", "Obstacle",
		"The first thing that keeps a job waiting; fits: it would fit, and the reason is not in the data"),
		Values: Obstacles, Shown: map[string]string{"gpus": "Too few GPUs are left",
			"gpuMemory": "Too few with the GPU memory", "shape": "Too few on one machine",
			"cpus": "Too few CPUs next to the GPUs", "memory": "Too little memory next to the GPUs",
			"fits": "Would fit: the reason is not in the data"}},
	ByJobProject: {Column: TextColumn("jobProject", "Project of the job",
		"Projects of the job that holds the GPU (ChtcProjects), from the queue files"), Fact: "jobProject",
		Text: func(v uint32, _ pool.Lists, names []string) string {
			if v == 0 {
				return Unknown
			}
			return names[v-1]
		},
		Filter: Words{"jobProjects", "Projects of jobs", "Projects of the jobs that hold the GPUs, from the queue files"},
		list:   func(f *Filter) *[]string { return &f.JobProjects }, match: projectsOf(ByJobProject),
		Dimension: Words{Label: "Projects of jobs", Description: "Those of the jobs in the queue files"}},
	ByOwnGPUs: {Column: TextColumn("ownGpus", "Own GPUs",
		"What the GPUs with priority for the job's projects did when its wait began"),
		Values: OwnGPUs, Shown: map[string]string{"free": "Enough were free", "backfill": "Backfill held them",
			"busy": "Busy", "none": "No own GPUs", "unknown": "Not known"},
		Filter:    Words{"ownGpus", "Own GPUs", "What the GPUs with priority for the job's projects did when its wait began"},
		list:      func(f *Filter) *[]string { return &f.OwnGPUs },
		Dimension: Words{Label: "Own GPUs", Description: "What owners' GPUs did when waits of their jobs began"}},
	ByUsedMemory: {Column: TextColumn("usedMemory", "Used GPU memory",
		"Class of the GPU memory that the run used at most (GPUsMemoryUsage)"), Values: UsedMemories,
		Filter:    Words{"usedMemory", "Used GPU memory", "Class of the GPU memory that a run used at most"},
		list:      func(f *Filter) *[]string { return &f.UsedMemory },
		Dimension: Words{Label: "Used GPU memory", Description: "Classes of the memory that runs used at most"}},
	ByAttribution: {Column: TextColumn("attribution", "Known by", "How the projects of the job are known"),
		Values: []string{"job", "user", "none"}},
}

// Values of closed lists: the numbers of GPUs, and the classes of GPU memory, that jobs ask for (methodology section
// 14); why jobs wait, and why GPUs are unused, in the order in which the reasons apply (section 16); what the GPUs with
// priority for a job's projects did when its wait began (section 18).
var (
	GPUCounts   = []string{"1", "2", "3-4", "5-8", ">8"}
	GPUMemories = []string{"any", "<48GB", "48GB", "80GB", ">80GB", "Other"}
	Obstacles   = []string{"gpus", "gpuMemory", "shape", "cpus", "memory", "fits"}
	Reasons     = []string{"prevented", "drained", "other", "fits", "cpus", "memory", "shape", "gpuMemory", "noDemand"}
	OwnGPUs     = []string{"free", "backfill", "busy", "none", "unknown"}
)

// UsedMemories are the classes of the GPU memory that a run used at most, in their order (methodology section 20).
var UsedMemories = append(each(len(usedGB), func(i int) string { return fmt.Sprintf("≤ %d GB", usedGB[i]) }),
	fmt.Sprintf("> %d GB", usedGB[len(usedGB)-1]), Unknown)

// usedGB are the bounds of these classes in GiB.
var usedGB = []int{4, 8, 16, 24, 40, 48, 80}

// UsedMemory returns the class of a peak in MiB, as an index in UsedMemories; a negative one is not known.
func UsedMemory(mib float64) int {
	if mib < 0 {
		return len(UsedMemories) - 1
	}
	class, _ := slices.BinarySearchFunc(usedGB, mib/1024, func(bound int, gib float64) int {
		return cmp.Compare(float64(bound), gib)
	})
	return class
}

// categoryName is the name of a category, which facts store by its key.
func categoryName(stored string) string {
	if c, known := pool.ParseCategory(stored); known {
		return c.String()
	}
	return stored
}

func machineType(ownership string) string {
	if o, known := pool.ParseOwnership(ownership); known {
		return o.MachineType()
	}
	return ""
}

// each returns the values of the numbers 0 … n−1.
func each[V any](n int, of func(i int) V) []V {
	values := make([]V, n)
	for i := range values {
		values[i] = of(i)
	}
	return values
}

// GroupingOf returns the grouping of a name.
func GroupingOf(name string) (g Grouping, known bool) {
	g, known = numbers[name]
	return g, known
}

// declared is the declaration of a name, an empty one if there is none.
func declared(name string) *Declaration {
	if g, known := numbers[name]; known {
		return &Groupings[g]
	}
	return &Declaration{}
}

var numbers = func() map[string]Grouping {
	all := make(map[string]Grouping, NumGroupings)
	for g := range Groupings {
		all[Groupings[g].Name] = Grouping(g)
	}
	return all
}()

// GroupingsOf are the groupings of some names. Names of others do not count.
func GroupingsOf(names []string) (all []Grouping) {
	for _, name := range names {
		if g, known := numbers[name]; known {
			all = append(all, g)
		}
	}
	return all
}

// NamesOf are the names of groupings.
func NamesOf(all []Grouping) []string {
	return each(len(all), func(i int) string { return Groupings[all[i]].Name })
}

// By are groupings of a view, by their names, with those that go beside them.
func By(names ...string) []string {
	return beside(names, func(d *Declaration) string { return d.Name })
}

// FilterBy are filters of a view, by their names, with those of groupings that go beside theirs.
func FilterBy(names ...string) []string {
	return beside(names, func(d *Declaration) string { return d.Filter.Name })
}

func beside(names []string, of func(*Declaration) string) (all []string) {
	for _, name := range names {
		all = append(all, name)
		for g := range Groupings {
			if other := declared(Groupings[g].Beside); of(other) == name && of(&Groupings[g]) != "" {
				all = append(all, of(&Groupings[g]))
			}
		}
	}
	return all
}

// InFacts are the names of groupings and filters, as far as facts distinguish them.
func InFacts(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == "idle" || slices.ContainsFunc(Groupings[:], func(d Declaration) bool {
			return d.Fact == "" && (d.Name == name || d.Filter.Name == name)
		})
	})
}

// Dimensions are the dimensions whose values can be listed for editors and variables.
var Dimensions = func() (names []string) {
	for g := range Groupings {
		if Grouping(g) != ByPool && Groupings[g].Dimension.Label != "" {
			names = append(names, Groupings[g].Name)
		}
	}
	return names
}()

// Texts of groups that are not values of their own; they come last.
const (
	Unknown = "Unknown" // without a value
	Other   = "Other"   // the rest
)

// last are the texts that come last, in this order.
var last = []string{Unknown, Other}

// ShownAs returns how values of a column are shown that are stored otherwise, by value.
func (p *Plan) ShownAs(column string) map[string]string {
	if column == Groupings[ByDevice].Name {
		return p.Env.Lists.DeviceNames
	}
	if shown := declared(column).Shown; shown != nil {
		return shown
	}
	return p.Words[column]
}

// CompareValues orders two values of a grouping: those that are indices in their own order, everything else bytewise;
// Unknown, then Other, last.
func CompareValues(grouping, a, b string) int {
	if a == b {
		return 0
	}
	order := declared(grouping).Values // nil: all have the index −1
	return cmp.Or(cmp.Compare(slices.Index(last, a), slices.Index(last, b)),
		cmp.Compare(slices.Index(order, a), slices.Index(order, b)), cmp.Compare(a, b))
}

// CompareGroups orders two groups by the groupings in turn.
func CompareGroups(groupings, a, b []string) int {
	for i, g := range groupings {
		if c := CompareValues(g, a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}
