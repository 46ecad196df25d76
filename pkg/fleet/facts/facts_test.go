package facts

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/utilization"
)

// Ids and texts of documents stay as they are: otherwise all facts that are there would be written again.
func TestDocuments(t *testing.T) {
	user, project := "Jürgen", "p"
	fact := func(kind string) Fact { return Fact{Pool: "a", Kind: kind, Hour: 1_760_000_000_000} }
	hour := fact(KindHour)
	hour.Coverage = &Coverage{Slices: 4, CoveredHours: 0.9, Snapshots: 4}
	gpus := fact(KindGPUs)
	gpus.Group = &Group{"Backfill-OpenCapacity", "Backfill", "NVIDIA A100-SXM4-80GB", "80-140 GB", "", "open", `say "no"`}
	gpus.Project = &gpus.Group.Project
	gpus.GPUs = &GPUs{Claimed: 12.25, Free: 1e-7}
	gpus.Occupancy = &backfill.Occupancy{Available: 3}
	users := fact(KindUsers)
	users.Group, users.User = gpus.Group, &user
	users.Usage, users.Backfill = &Usage{Amounts: utilization.Amounts{Held: 1.0 / 3}, Begun: 2}, &Backfill{Lost: 1}
	hours := fact(KindUsers)
	hours.Group, hours.User, hours.JobProject, hours.GPUs = gpus.Group, &user, new(string), &GPUs{Claimed: 1}
	evicted := fact(KindEvictions)
	evicted.Group, evicted.User = gpus.Group, &user
	evicted.Evicted = &Evicted{Cause: "owner", Evidence: "job ad", Saved: 1_759_990_000_000, Began: 1_759_980_000_000}
	evicted.Eviction = &evictions.Eviction{Evictions: 1, GPUs: 0, Lost: 2.5, Evicted: 3}
	waits := fact(KindWaits)
	waits.User, waits.Project = &user, &project
	waits.Request = &Request{Project: project, Schedd: "ap", GPUs: "1", GPUMemory: "any"}
	waits.Waits = &Waits{Left: 1, JobHours: 7}
	const group = `"category":"Backfill-OpenCapacity","slots":"Backfill","device":"NVIDIA A100-SXM4-80GB",` +
		`"memory":"80-140 GB","tier":"","ownership":"open"`
	for _, c := range []struct {
		fact     Fact
		id, text string
	}{
		{hour, "JvzO30Pj-lfVftbOve4dTT-4", `"slices":4,"coveredHours":0.9,"snapshots":4}`},
		{gpus, "VmL5ZpcvMpe2SFbO7xW9PUIr", group + `,"project":"say \"no\"","claimed":12.25,"free":1e-7,` +
			`"poolAvailable":3}`},
		{users, "TWgcmdlkzv-mo7r0KQOK6MBh", group + `,"user":"Jürgen","held":0.3333333333333333,"begun":2,` +
			`"outOfSight":1}`},
		{hours, "72ZV8gvPmwfurJXLb9-iKNd0", group + `,"user":"Jürgen","jobProject":"","claimed":1}`},
		{evicted, "IwLhJuNOQtaFkiw85RZX89BN", group + `,"user":"Jürgen","cause":"owner",` +
			`"evidence":"job ad","saved":1759990000000,"began":1759980000000,"evictions":1,"evictedGpus":0,"lost":2.5,"evicted":3}`},
		{waits, "cs1pgT084PAHo3_56S7IP3Qs", `"project":"p","user":"Jürgen","schedd":"ap","gpus":"1",` +
			`"gpuMemory":"any","waitsLeft":1,"waitingJobHours":7}`},
	} {
		require.Equal(t, c.id, c.fact.ID(), c.fact.Kind)
		text, err := json.Marshal(&c.fact)
		require.NoError(t, err)
		require.Equal(t, `{"pool":"a","kind":"`+c.fact.Kind+`","hour":1760000000000,`+c.text, string(text))
	}
}

// A figure that is not a number is an error, not a document without it.
func TestNoNumber(t *testing.T) {
	for _, wrong := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := json.Marshal(&Fact{Waits: &Waits{Waited: wrong}})
		require.ErrorContains(t, err, "unsupported value")
	}
}
