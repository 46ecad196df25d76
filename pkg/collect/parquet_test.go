package collect

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// parquetRows reads all rows of a month file in the order of columns.
func parquetRows(t testing.TB, path string) (rows [][]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	fields, err := f.Fields()
	require.NoError(t, err)
	require.Equal(t, parquet.Schema, fields, "the order of the reference collector")
	require.NoError(t, f.EachRow(t.Context(), 0, fields, func(row []any) error {
		values := make([]any, len(columns))
		for i, f := range parquet.Schema {
			values[slices.IndexFunc(columns, func(c column) bool { return c.name == f.Name })] = row[i]
		}
		rows = append(rows, values)
		return nil
	}))
	return rows
}

// Both formats hold the same rows in the same order.
func TestFormatsHoldTheSame(t *testing.T) {
	o := fake(t, "machines:5")
	times := []string{"2026-06-30T23:59:58.123456Z", "2026-07-01T00:15:00Z", "2026-07-01T00:30:00Z"}
	now := clock(times...)
	for range times {
		_, err := run(t.Context(), o, now)
		require.NoError(t, err)
	}
	p := fake(t, "machines:5")
	p.Format = "parquet"
	now = clock(times...)
	for range times {
		result, err := run(t.Context(), p, now)
		require.NoError(t, err)
		require.Equal(t, 5*rowsPerMachine, result.Rows)
	}
	for _, month := range []string{"gpu_state_2026-06", "gpu_state_2026-07"} {
		db := readOnly(t, filepath.Join(o.SnapshotDir, month+".db"))
		found, err := db.Query(`SELECT Name, AssignedGPUs, AvailableGPUs, State, GPUs_DeviceName, GPUs_GlobalMemoryMb, PrioritizedProjects,
			GPUsAverageUsage, Machine, PreventJobsReason, RemoteOwner, GlobalJobId, CAST(timestamp AS TEXT), Disk,
			Cpus, Memory, SlotType, SlotBrokenReason, BackfillSlot FROM gpu_state ORDER BY rowid`)
		require.NoError(t, err)
		var want [][]any
		for found.Next() {
			row := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			require.NoError(t, found.Scan(into...))
			want = append(want, row)
		}
		require.NoError(t, found.Err())
		require.NoError(t, found.Close())
		require.NotEmpty(t, want)
		require.Equal(t, want, parquetRows(t, filepath.Join(p.SnapshotDir, month+".parquet")))
	}
	entries, err := os.ReadDir(p.SnapshotDir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), ".tmp")
		require.NotContains(t, e.Name(), "gpu_state_2026-07.db")
	}
}

// table are the rows of a snapshot in the order of columns.
func table(s snapshot) (rows [][]any) {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	for _, r := range s.rows() {
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
		"Backfill2_1@mig.example.org)", notesOn(got.slots, slotAttributes, "slots", "Name", "stored as NULL"))
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

// seen is what a person would say of a GPU.
type seen struct {
	Machine, GPU, State, User, Device string
	Memory                            float64
}

// storedRow is a row of a month file as far as a GPU's state depends on it.
type storedRow struct {
	side                       pool.Side
	state                      pool.State
	prevented, broken          bool
	machine, gpu, user, device string
	memory                     float64
}

// testdata/realpool.json is the output of condor_status on a real pool with broken slots next to running backfill, GPUs
// that were taken offline under running jobs, MIG devices, static slots, and two models in one machine.
func TestStatesOfARealPool(t *testing.T) {
	for _, format := range []string{"sqlite", "parquet"} {
		o := fake(t, "file:testdata/realpool.json")
		o.Format = format
		result, err := Run(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, "GPUs left out because they are offline (OfflineGPUs) and no job holds them: 2", result.Notes)
		if format == "parquet" {
			continue // convert and the stores are tested for equal contents
		}
		file, err := filepath.Glob(filepath.Join(o.SnapshotDir, "gpu_state_*.db"))
		require.NoError(t, err)
		db, err := sql.Open("sqlite", file[0])
		require.NoError(t, err)
		defer db.Close()
		requireStates(t, readRows(t, db))
		var cpus, memory, slotType, backfill sql.NullString
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT Cpus, Memory, SlotType, BackfillSlot FROM gpu_state
			WHERE Name = 'backfill2@gpu3001.example.org'`).Scan(&cpus, &memory, &slotType, &backfill))
		require.Equal(t, []string{"14", "65280", "Partitionable", "1"},
			[]string{cpus.String, memory.String, slotType.String, backfill.String})
	}
}

func readRows(t *testing.T, db *sql.DB) (all []storedRow) {
	rows, err := db.QueryContext(t.Context(), `SELECT Name, coalesce(BackfillSlot, 0), State, PreventJobsReason > '',
		SlotBrokenReason > '', Machine, coalesce(AssignedGPUs, ''), coalesce(RemoteOwner, ''),
		coalesce(GPUs_DeviceName, ''), coalesce(GPUs_GlobalMemoryMb, 0) FROM gpu_state`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var r storedRow
		var name, state string
		var flag int
		var prevented, broken sql.NullBool
		require.NoError(t, rows.Scan(&name, &flag, &state, &prevented, &broken, &r.machine, &r.gpu, &r.user, &r.device,
			&r.memory))
		r.side, r.state, r.prevented, r.broken = pool.SideOf(name), pool.ParseState(state), prevented.Bool, broken.Bool
		if flag == 1 {
			r.side = pool.Backfill
		}
		if r.broken {
			r.state = pool.Other
		}
		all = append(all, r)
	}
	require.NoError(t, rows.Err())
	return all
}

func requireStates(t *testing.T, rows []storedRow) {
	text, err := os.ReadFile("testdata/realpool_expected.json")
	require.NoError(t, err)
	var expected []seen
	require.NoError(t, json.Unmarshal(text, &expected))
	require.Len(t, expected, 22)
	known := map[[2]string]bool{}
	for _, want := range expected {
		known[[2]string{want.Machine, want.GPU}] = true
		got := seen{Machine: want.Machine, GPU: want.GPU, State: "Offline"}
		var sides [2]*storedRow
		for i := range rows {
			if r := &rows[i]; r.machine == want.Machine && r.gpu == want.GPU {
				if s := sides[r.side]; s == nil || r.state >= s.state {
					sides[r.side] = r
				}
			}
		}
		primary, backfill := sides[pool.Primary], sides[pool.Backfill]
		held := primary
		switch {
		case primary != nil && primary.state == pool.Claimed:
			got.State, got.User = "Claimed", primary.user
		case backfill != nil && backfill.state == pool.Claimed:
			held, got.State, got.User = backfill, "Backfill", backfill.user
		case primary == nil:
			held = backfill
		}
		if held != nil {
			got.Device, got.Memory = held.device, held.memory
			if got.State == "Offline" {
				got.State = map[pool.State]string{pool.Unclaimed: "Free", pool.Drained: "Drained", pool.Other: "Other"}[held.state]
				if held.prevented {
					got.State = "Prevented"
				}
			}
		} else {
			got.Device, got.Memory = want.Device, want.Memory
		}
		require.Equal(t, want, got)
	}
	for _, r := range rows {
		require.True(t, r.gpu == "" || known[[2]string{r.machine, r.gpu}], "%s %s", r.machine, r.gpu)
	}
}
