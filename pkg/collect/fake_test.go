package collect

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary, started again, is condor_status (FAKE_CONDOR_STATUS says how it behaves) or a whole collector
// (COLLECT_INTO says where to).
func TestMain(m *testing.M) {
	if dir := os.Getenv("COLLECT_INTO"); dir != "" {
		os.Unsetenv("COLLECT_INTO")
		collectForever(dir)
	}
	if behaviour := os.Getenv("FAKE_CONDOR_STATUS"); behaviour != "" {
		fakeCondorStatus(behaviour)
	}
	goleak.VerifyTestMain(m)
}

// collectForever takes one snapshot after the other, or as many as COLLECT_TIMES says.
func collectForever(dir string) {
	times, _ := strconv.Atoi(os.Getenv("COLLECT_TIMES"))
	for i := 0; times == 0 || i < times; i++ {
		if _, err := Run(context.Background(), Options{SnapshotDir: dir, CondorStatus: itself(),
			To: Target{URL: os.Getenv("COLLECT_TO"), Endpoint: os.Getenv("COLLECT_ENDPOINT"), PathStyle: true}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func itself() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// fake makes Options with a condor_status that behaves so.
func fake(t *testing.T, behaviour string) Options {
	t.Setenv("FAKE_CONDOR_STATUS", behaviour)
	return Options{SnapshotDir: t.TempDir(), CondorStatus: itself(), Timeout: time.Minute}
}

func fakeCondorStatus(behaviour string) {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	kind, arg, _ := strings.Cut(behaviour, ":")
	n, _ := strconv.Atoi(arg)
	code := 0
	switch kind {
	case "machines":
		printPool(out, n)
	case "queues":
		fakeQueues(out, arg)
	case "none":
	case "file":
		text, err := os.ReadFile(arg)
		if err != nil {
			panic(err)
		}
		out.Write(text)
	case "hang": // with a grandchild that would keep the pipe open, deaf to everything but SIGKILL
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if arg != "alone" {
			os.Setenv("FAKE_CONDOR_STATUS", "hang:alone")
			grandchild := exec.Command(itself())
			grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
			if err := grandchild.Start(); err != nil {
				panic(err)
			}
			fmt.Fprint(os.Stderr, "deaf")
			if err := os.WriteFile(os.Getenv("FAKE_GROUP"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				panic(err)
			}
		}
		io.WriteString(out, "[\n")
		out.Flush()
		time.Sleep(10 * time.Minute)
	case "fail":
		fmt.Fprintln(os.Stderr, "Error: communication error\nCEDAR:6001:Failed to connect to <10.0.0.1:9618>")
		code = 1
	case "failAfterAll":
		printPool(out, 3)
		fmt.Fprintln(os.Stderr, "Error: lost the collector")
		code = 1
	case "half":
		var all strings.Builder
		w := bufio.NewWriter(&all)
		printPool(w, 10)
		w.Flush()
		io.WriteString(out, all.String()[:all.Len()/2])
	case "endless":
		io.WriteString(out, "[\n")
		for ad := fmt.Sprintf(`{"Name": "slot1@m", "Machine": "m", "State": "Claimed", "RemoteOwner": "%s"},`,
			strings.Repeat("a", 1<<16)); ; {
			if _, err := io.WriteString(out, ad); err != nil {
				os.Exit(1)
			}
		}
	case "wordy":
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("w\xff", 1000))
		}
		code = 3
	case "types":
		io.WriteString(out, `[{"Name": 1, "Machine": {}, "State": []}]`)
	case "latin1":
		io.WriteString(out, "[{\"Name\": \"slot1@m\", \"Machine\": \"m\", \"State\": \"Claimed\", \"AssignedGPUs\": "+
			"\"GPU-1\", \"RemoteOwner\": \"J\xf6rg\"}]")
	case "arguments":
		args, _ := json.Marshal(os.Args[1:])
		fmt.Fprintf(os.Stderr, "%s", args)
		code = 1
	default:
		panic(behaviour)
	}
	out.Flush()
	os.Exit(code)
}

// fakeQueues answers as condor_status -schedd or as condor_q, from the files of a directory, one an access point. A
// file that says hang lets the caller wait, one that says fail fails.
func fakeQueues(out *bufio.Writer, dir string) {
	if slices.Contains(os.Args, "-schedd") {
		entries, err := os.ReadDir(dir)
		if err != nil {
			panic(err)
		}
		for i, e := range entries {
			fmt.Fprintf(out, "%s{\"Name\": %q}\n", []string{"[\n", ",\n"}[min(i, 1)], e.Name())
		}
		if len(entries) > 0 {
			io.WriteString(out, "]\n")
		}
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, os.Args[slices.Index(os.Args, "-name")+1]))
	if err != nil {
		panic(err)
	}
	switch string(text) {
	case "hang":
		time.Sleep(10 * time.Minute)
	case "fail":
		fmt.Fprintln(os.Stderr, "-- Failed to fetch ads")
		os.Exit(1)
	}
	out.Write(text)
}

// gpusPerMachine of the fake pool; each machine has rowsPerMachine rows: 4 of slot1, 2 of slot1_1, 1 of backfill2, 1 of
// backfill2_1.
const (
	gpusPerMachine = 4
	rowsPerMachine = 8
	adsPerMachine  = 4
)

// printPool prints a pool of the given number of machines as condor_status does.
func printPool(w *bufio.Writer, machines int) {
	for m := range machines {
		machine := fmt.Sprintf("gpu%05d.chtc.example.org", m)
		ids := make([]string, gpusPerMachine)
		for i := range ids {
			ids[i] = fmt.Sprintf("%04x%04x", m, i)
		}
		job := fmt.Sprintf("\n  \"GlobalJobId\": \"ap2001.chtc.example.org#%d.0#1759341353\",\n  \"RemoteOwner\": "+
			"\"user%d@chtc.example.org\",\n  \"GPUsAverageUsage\": 0.5,", m, m%100)
		slot := func(name, state, job string, assigned, available []string) {
			separator := ",\n"
			if m == 0 && name == "slot1" {
				separator = "[\n"
			}
			var expressions []string
			for _, id := range available {
				expressions = append(expressions, "\n    \"\\/Expr(GPUs_GPU_"+id+")\\/\"")
			}
			hold := ""
			if assigned != nil {
				hold = "\n  \"AssignedGPUs\": \"GPU-" + strings.Join(assigned, ",GPU-") + "\","
			}
			fmt.Fprintf(w, "%s{%s\n  \"AvailableGPUs\": [%s\n  ],\n  \"Disk\": 1929379840,%s\n  \"GPUs_DeviceName\": "+
				"\"NVIDIA A100-SXM4-80GB\",\n  \"GPUs_GlobalMemoryMb\": 81153,\n"+
				"  \"Machine\": %q,\n  \"Name\": \"%s@%s\",\n  \"PrioritizedProjects\": \"Bio_One\",\n  \"State\": %q\n}\n",
				separator, hold, strings.Join(expressions, ","), job, machine, name, machine, state)
		}
		slot("slot1", "Unclaimed", "", ids, ids[2:])
		slot("slot1_1", "Claimed", job, ids[:2], ids[:2])
		slot("backfill2", "Unclaimed", "", nil, ids[2:])
		slot("backfill2_1", "Claimed", job, ids[2:], ids[2:])
	}
	if machines > 0 {
		io.WriteString(w, "]\n")
	}
}

func TestPrintedPoolIsWhatTheTestsCount(t *testing.T) {
	var text strings.Builder
	w := bufio.NewWriter(&text)
	printPool(w, 3)
	w.Flush()
	got, err := decode(strings.NewReader(text.String()))
	require.NoError(t, err)
	require.Len(t, got.slots, 3*adsPerMachine)
	require.Len(t, table(snapshot{"", got}), 3*rowsPerMachine)
	require.Empty(t, got.notes())
}
