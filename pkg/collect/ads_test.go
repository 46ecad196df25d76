package collect

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// table are the rows of a snapshot in the order of columns.
func table(s snapshot) (rows [][]any) {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	for r := range s.rows {
		rows = append(rows, r.in(names))
	}
	return rows
}

func TestDecodeOutputOfCondorStatus(t *testing.T) {
	file, err := os.Open("testdata/condor_status.json")
	require.NoError(t, err)
	defer file.Close()
	got, err := decode(file)
	require.NoError(t, err)

	const (
		a100   = "NVIDIA A100-SXM4-80GB"
		gpu    = "gpu2001.chtc.example.org"
		stamp  = "2026-07-01 12:00:00.000001"
		mig    = "MIG-6f8a01c2-2b2e-5f5a-9a51-0d3f2b7c11aa"
		both   = mig + ",CUDA0"
		osgJob = "ap40.example.org#7.0#1759341400"
	)
	rows := table(snapshot{stamp, got})
	// Name, AssignedGPUs, AvailableGPUs, State, GPUs_DeviceName, GPUs_GlobalMemoryMb, PrioritizedProjects,
	// GPUsAverageUsage, Machine, PreventJobsReason, RemoteOwner, GlobalJobId, timestamp, Disk
	want := [][]any{
		{"slot1@" + gpu, "GPU-b1223334", "GPU-b1223334", "Unclaimed", a100, int64(81153), "Bio_One,CS_Two", nil, gpu, "",
			nil, nil, stamp, int64(1929379840)},
		{"slot1_1@" + gpu, "GPU-a0223334", "GPU-a0223334", "Claimed", a100, int64(81153), "Bio_One,CS_Two",
			0.8244960000000001, gpu, nil, "jane@chtc.example.org", "ap2001.chtc.example.org#1000561.10#1759341353", stamp,
			int64(1048576)},
		{"backfill2@" + gpu, "GPU-d3223334", "GPU-d3223334,GPU-b1223334", "Unclaimed", a100, int64(81153), "", nil, gpu, nil,
			nil, nil, stamp, nil},
		{"backfill2@" + gpu, "GPU-b1223334", "GPU-d3223334,GPU-b1223334", "Unclaimed", a100, int64(81153), "", nil, gpu, nil,
			nil, nil, stamp, nil},
		{"Backfill2_1@mig.example.org", mig, both, "Claimed", nil, nil, nil, nil, "mig.example.org", nil,
			"osg@ospool.example.org", osgJob, stamp, nil},
		{"Backfill2_1@mig.example.org", "CUDA0", both, "Claimed", nil, nil, nil, nil, "mig.example.org", nil,
			"osg@ospool.example.org", osgJob, stamp, nil},
		{"slot1@old.example.org", "CUDA0", nil, "Drained", nil, nil, nil, nil, "old.example.org", nil, nil, nil, stamp,
			int64(17)},
		{"slot1@old.example.org", "CUDA1", nil, "Drained", nil, nil, nil, nil, "old.example.org", nil, nil, nil, stamp,
			int64(17)},
		{"backfill2@old.example.org", nil, "", "Owner", nil, nil, nil, nil, "old.example.org", nil, nil, nil, stamp, nil},
	}
	for i := range want { // Cpus, Memory, SlotType, SlotBrokenReason, BackfillSlot
		want[i] = append(want[i], nil, nil, nil, nil, nil)
	}
	require.Empty(t, cmp.Diff(want, rows))
	require.Equal(t, "GPUs_GlobalMemoryMb of 1 slots is an expression or of a wrong type: stored as NULL; "+
		"PrioritizedProjects of 1 slots is an expression or of a wrong type: stored as NULL; "+
		"GPUsAverageUsage of 1 slots is an expression or of a wrong type: stored as NULL; "+
		"PreventJobsReason of 1 slots is an expression or of a wrong type: stored as NULL (first: "+
		"Backfill2_1@mig.example.org)", got.notes())
}

// A MIG device's id holds slashes, which a reference to its attribute cannot: both sides of the GPU get one id.
func TestDecodeMIGWithSlashes(t *testing.T) {
	const id = "MIG-GPU-6f8a01c2-2b2e-5f5a-9a51-0d3f2b7c11aa/7/0"
	const reference = `"/Expr(GPUs_MIG_GPU_6f8a01c2_2b2e_5f5a_9a51_0d3f2b7c11aa_7_0)/"`
	got, err := decode(strings.NewReader(`[
		{"Name": "backfill2@m", "Machine": "m", "State": "Unclaimed", "AvailableGPUs": [` + reference + `, "/Expr(GPUs_GPU_b1223334)/"]},
		{"Name": "slot1@m", "Machine": "m", "State": "Unclaimed", "AssignedGPUs": "GPU-a0223334, ` + id + `", "AvailableGPUs": [` + reference + `]},
		{"Name": "backfill2@n", "Machine": "n", "State": "Unclaimed", "AvailableGPUs": [` + reference + `]}]`))
	require.NoError(t, err)
	var ids [][]string
	for i := range got.slots {
		ids = append(ids, got.slots[i].gpuIDs())
	}
	require.Equal(t, [][]string{{id, "GPU-b1223334"}, {id},
		{"MIG-GPU-6f8a01c2-2b2e-5f5a-9a51-0d3f2b7c11aa-7-0"}}, ids)
	require.Equal(t, id, got.slots[1].slotRows("", nil)[0]["AvailableGPUs"])
}

func TestDecodeNothing(t *testing.T) {
	for _, output := range []string{"", "\n", "[]", "[ ]\n"} {
		got, err := decode(strings.NewReader(output))
		require.NoError(t, err, output)
		require.Empty(t, got.slots)
	}
}

func TestDecodeRefusesWhatIsNoListOfSlots(t *testing.T) {
	const slot = `{"Name": "slot1@m", "Machine": "m", "State": "Unclaimed"}`
	for output, reason := range map[string]string{
		`{}`:                          "it begins with {",
		`"slots"`:                     "it begins with slots",
		`Error: no collector`:         "invalid character 'E'",
		`[`:                           "after 0 slots: it ends in the middle",
		`[` + slot:                    "after 1 slots: it ends in the middle",
		`[` + slot + `,`:              "after 1 slots: it ends in the middle",
		`[` + slot + `,{"Name": "slo`: "after 1 slots: it ends in the middle",
		`[` + slot + `}`:              "invalid character '}'",
		`[` + slot + `][`:             "there is more after the list",
		`[` + slot + `] Total 1`:      "there is more after the list",
		`[7]`:                         "cannot unmarshal number",
		`[null]`:                      `Name of slot "" is not a text`,
		`[{"Name": 7, "Machine": "m", "State": "Claimed"}]`:                           `Name of slot "" is not a text`,
		`[{"Name": "s", "Machine": ["m"], "State": "Claimed"}]`:                       `Machine of slot "s" is not a text`,
		`[{"Name": "s", "Machine": "", "State": "Claimed"}]`:                          `Machine of slot "s" is not a text`,
		`[{"Name": "s", "Machine": "m"}]`:                                             `State of slot "s" is not a text`,
		`[{"Name": "s", "Machine": "m", "State": "\/Expr(ifThenElse(a,\"b\",c))\/"}]`: `State of slot "s" is not a text`,
	} {
		_, err := decode(strings.NewReader(output))
		require.ErrorContains(t, err, reason, output)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
}

func TestDecodeWrongTypes(t *testing.T) {
	got, err := decode(strings.NewReader(`[{"Name": "s", "Machine": "m", "State": "Claimed", "AssignedGPUs": 4, "AvailableGPUs": "GPU-1", "GPUs_DeviceName": {"a": [1]},
		"GPUs_GlobalMemoryMb": "80", "PrioritizedProjects": true, "GPUsAverageUsage": [1], "RemoteOwner": 1.5,
			"GlobalJobId": ["x"], "PreventJobsReason": false, "Disk": 1e300, "Cpus": "4", "Memory": 0.5,
		"SlotType": 1, "SlotBrokenReason": [], "BackfillSlot": "true", "OfflineGPUs": 3, "Offline": 1}]`))
	require.NoError(t, err)
	require.Equal(t, []any{"s", nil, nil, "Claimed", nil, nil, nil, nil, "m", nil, nil, nil, "now", nil, nil,
		nil, nil, nil, nil},
		table(snapshot{"now", got})[0])
	require.Equal(t, names(slotAttributes[3:]), got.slots[0].unread)
	for _, list := range []string{`[1]`, `["\/Expr(ifThenElse(a,GPUs_GPU_1,b))\/", null]`, `[""]`, `["\/Expr(Cpus)\/"]`,
		`{"a": 1}`} {
		got, err := decode(strings.NewReader(`[{"Name": "backfill1@m", "Machine": "m", "State": "Unclaimed", "AvailableGPUs": ` + list + `}]`))
		require.NoError(t, err)
		require.Equal(t, []string{"AvailableGPUs"}, got.slots[0].unread, list)
		require.Empty(t, got.slots[0].gpuIDs())
	}
}

// FuzzDecode: any output is either refused with a known fault or gives rows that fit the table.
func FuzzDecode(f *testing.F) {
	sample, err := os.ReadFile("testdata/condor_status.json")
	require.NoError(f, err)
	f.Add(sample)
	f.Add(sample[:len(sample)/2])
	for _, seed := range []string{"", "[]", "[{}]", `[{"name":"backfill@m","MACHINE":"m","State":"x","AvailableGPUs":["\/Expr(GPUs_)\/"]}]`, "[{\"Name\":\"\xff\"}]", `[[[[`, `[{"Disk":-1e999}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		got, err := decode(bytes.NewReader(output))
		if err != nil {
			require.Equal(t, pool.FaultSource, pool.FaultOf(err))
			return
		}
		rows := table(snapshot{"now", got})
		require.GreaterOrEqual(t, len(rows), len(got.slots))
		for _, row := range rows {
			for _, value := range row {
				if text, is := value.(string); is {
					require.True(t, utf8.ValidString(text))
				}
			}
			require.NotEqual(t, "", row[1])
		}
	})
}
