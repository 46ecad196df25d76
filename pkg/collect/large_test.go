package collect

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// collectOnce runs a collector of its own into a new directory. The fake condor_status is not counted.
func collectOnce(t testing.TB, machines int) (wall, cpu time.Duration, peak int64) {
	command := exec.Command(itself())
	command.Env = append(os.Environ(), "COLLECT_INTO="+t.TempDir(), "COLLECT_TIMES=1",
		"FAKE_CONDOR_STATUS=machines:"+strconv.Itoa(machines))
	began := time.Now()
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	usage := command.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Since(began), time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), usage.Maxrss << 10 // KiB on Linux
}

// A pool of 10,000 GPUs fits into 3 s and 300 MB (budget of the collector). Processor time, so that a busy machine does
// not fail it.
func TestTenThousandGPUs(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs several times as much")
	}
	_, cpu, peak := collectOnce(t, 10_000/gpusPerMachine)
	require.Less(t, cpu, 3*time.Second)
	require.Less(t, peak, int64(300e6))
}
