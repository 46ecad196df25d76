package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsThatMeanNoValue(t *testing.T) {
	for _, text := range []string{"undefined", " UNDEFINED\t", "<na>", "<NA>", "{}", "{  }", " [ ]", `""`, `" "`} {
		_, meaning := ReadText(text)
		require.Equal(t, NoValue, meaning, text)
		value, meaning := ReadFreeText(text)
		require.Equal(t, NoValue, meaning, text)
		require.Empty(t, value)
	}
	for _, text := range []string{"error", "NULL", "none", "nan", " NaN "} {
		_, meaning := ReadText(text)
		require.Equal(t, NoValue, meaning, text)
		value, meaning := ReadFreeText(text)
		require.Equal(t, Known, meaning, text)
		require.Equal(t, text, value)
	}
	for _, text := range []string{"", " ", "undefine", "undefined1", "nano", "nobody", "{a}", "[", "{", `"`, `"a"`, "<N/A>",
		"errors", "0"} {
		value, meaning := ReadText(text)
		require.Equal(t, Known, meaning, text)
		require.Equal(t, text, value)
	}
}

func TestFlags(t *testing.T) {
	for text, want := range map[string]string{"": "", "1": "1", "0": "0", " TRUE ": "1", "yEs": "1", "Y": "1", "t": "1",
		"FALSE": "0", "No": "0", "N": "0", "f": "0", "1.0": "1", "0.0": "0"} {
		value, meaning := ReadFlag(text)
		require.Equal(t, Known, meaning, text)
		require.Equal(t, want, value, text)
	}
	for text, want := range map[string]Meaning{"2": NotKnown, "-1": NotKnown, "on": NotKnown, "\x01": NotKnown,
		"none": NoValue, "{ }": NoValue} {
		value, meaning := ReadFlag(text)
		require.Equal(t, want, meaning, text)
		require.Empty(t, value)
	}
}

func TestClosedColumns(t *testing.T) {
	for text, want := range map[string]Meaning{"Claimed": Known, "Owner": Known, "": Known, " Drained ": Known,
		"claimed": NotKnown, "Running": NotKnown, "null": NoValue} {
		_, meaning := ReadSlotState(text)
		require.Equal(t, want, meaning, text)
	}
	_, meaning := ReadSlotType("partitionable")
	require.Equal(t, NotKnown, meaning)
	for text, want := range map[string]bool{"running": true, "RUNNING": true, "r": true, "2": true, " Running ": true,
		"idle": false, "I": false, "1": false, "": false} {
		running, meaning := ReadJobState(text)
		require.Equal(t, Known, meaning, text)
		require.Equal(t, want, running, text)
	}
	for text, want := range map[string]Meaning{"5": NotKnown, "Held": NotKnown, "<NA>": NoValue} {
		running, meaning := ReadJobState(text)
		require.Equal(t, want, meaning, text)
		require.False(t, running)
	}
}

func TestValuesTellWhatTheyCounted(t *testing.T) {
	var v, other Values
	require.Empty(t, v.String())
	v.Add("State", Known, 5, "Claimed")
	v.Add("RemoteOwner", NoValue, 2, "undefined")
	require.False(t, v.Unknown())
	other.Add("RemoteOwner", NoValue, 3, "{}")
	other.Add("State", NotKnown, 1, "Sleeping beauty in a castle behind a hedge of thorns")
	v.Merge(&other)
	require.True(t, v.Unknown())
	require.Equal(t, `values that are not known, in State (1, such as "Sleeping beauty in a castle behind a hed…"): `+
		`none of them counts as a known one; texts that mean no value, in RemoteOwner (5, such as "undefined"): `+
		`they count as empty`, v.String())
}

func TestListsOfProjects(t *testing.T) {
	for text, want := range map[string]string{`{ "Bio", "Alpha" }`: "Alpha,Bio", `{"Bio"}`: "Bio", `['x', 'y']`: "x,y",
		`"Bio"`: "Bio", `"b","a"`: "a,b", "b a": "a,b", "{}": "", "{ undefined }": "", `{ "" }`: "", "undefined": "",
		"{a,b": "b,{a"} {
		require.Equal(t, want, ProjectList(text), text)
	}
}

func TestIDsOfGPUs(t *testing.T) {
	for text, want := range map[string]string{" 'GPU_77aa' ": "GPU-77aa", `"MIG_5c_1"`: "MIG-5c-1", "GPU-1": "GPU-1"} {
		require.Equal(t, want, GPUID(text), text)
	}
	for id, number := range map[string]string{"CUDA12": "12", "cuda0": "0", "Ocl3": "3"} {
		n, counts := CountingID(id)
		require.True(t, counts, id)
		require.Equal(t, number, n)
	}
	for _, id := range []string{"CUDA", "CUDA-1", "GPU-0", "CUDA0@pilot", "xCUDA0", "OCL1a", ""} {
		_, counts := CountingID(id)
		require.False(t, counts, id)
	}
	require.Equal(t, "cuda1@pilot_3", GPUOf("cuda1", "slot1_2@pilot_3@host.example.org"))
	require.Equal(t, "CUDA1", GPUOf("CUDA1", "slot1_2@host.example.org"))
	require.Equal(t, "GPU-9", GPUOf("GPU_9", "slot1@pilot@host"))
}

func TestMIGProfile(t *testing.T) {
	for _, c := range []struct {
		id, device, profile string
		part                bool
	}{
		{"GPU-a0223334", "NVIDIA A100-SXM4-80GB", "", false},
		{"GPU-a0223334", "", "", false},
		{"MIG-6f8a01c2", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "1g.10gb", true},
		{"MIG-6f8a01c2", "NVIDIA H200 MIG 1g.18gb+me", "1g.18gb+me", true},
		{"CUDA0", "NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb", "2c.3g.40gb", true},
		{"MIG-GPU-6f8a01c2/7/0", "NVIDIA A100-SXM4-80GB", "", true},
	} {
		profile, part := MIGProfile(c.id, c.device)
		require.Equal(t, c.part, part, c)
		require.Equal(t, c.profile, profile, c)
	}
}

func TestMedian(t *testing.T) {
	require.Equal(t, 7.0, Median([]float64{7}))
	require.Equal(t, 2.5, Median([]float64{9, 1, 3, 2}))
	require.Equal(t, 3.0, Median([]float64{9, 1, 3}))
	require.Equal(t, Micros(2), Median([]Micros{3, 2}), "half a microsecond is dropped")
	require.Equal(t, 15*Minute, MedianDistance([]Micros{0, 15 * Minute, 30 * Minute, 2 * Day}))
}

func TestSlotNames(t *testing.T) {
	for name, want := range map[string]Side{
		"slot1@m": Primary, "slot1_3@backfill-1.example.org": Primary, "": Primary, "@backfill": Primary,
		"backfill2@m": Backfill, "BackFill2_1@m": Backfill, "my_backfill": Backfill,
	} {
		require.Equal(t, want, SideOf(name), name)
	}
	for name, want := range map[string]bool{
		"data1@m": true, "data1_1@m": true, "data12_34": true, "data1": true,
		"data@m": false, "data1_@m": false, "Data1@m": false, "slot1@data1": false, "data1x@m": false, "xdata1@m": false,
	} {
		require.Equal(t, want, IsDataSlot(name), name)
	}
}

func TestTierOf(t *testing.T) {
	for device, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "Flagship", "NVIDIA H200 NVL": "Flagship", "nvidia a100-sxm4-80gb": "Flagship",
		"NVIDIA A100-SXM4-40GB": "Standard", "NVIDIA L40S": "Standard", "": "Unknown", " ": "Unknown",
	} {
		require.Equal(t, want, Lists{}.TierOf(device), device)
	}
	lists := Lists{Tiers: []Tier{{"Big", []string{"A100", "L40"}}, {"Old", []string{"A100-SXM4-40GB", "1080"}}}}
	require.Equal(t, "Big", lists.TierOf("NVIDIA A100-SXM4-40GB"), "the first that fits")
	require.Equal(t, "Old", lists.TierOf("GTX 1080 Ti"))
	require.Equal(t, "Standard", lists.TierOf("NVIDIA H200"))
	require.Equal(t, "Standard", Lists{Tiers: []Tier{}}.TierOf("NVIDIA H200"), "a file without tiers")
}
