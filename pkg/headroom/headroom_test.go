package headroom

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Segments leave little headroom, observed runs with their ads as much as Go itself. While rounds are frequent, a small
// heap may grow to 192 MB.
func TestHeadroomIsInProportionToWhatIsScanned(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, scanned          uint64
		whenFrequent, whenRare int
		what                   string
	}{
		{0, 0, 4800, 100, "nothing lives yet"},
		{10 * mb, mb, 1820, 100, "to 192 MB; more than Go itself"},
		{50 * mb, 2 * mb, 284, 32, "to 192 MB; at least 16 MB"},
		{64 * mb, 64 * mb, 200, 100, "to 192 MB; as Go itself"},
		{96 * mb, 96 * mb, 100, 100, "to 192 MB; as Go itself"},
		{180 * mb, 2 * mb, 8, 8, "at least 16 MB"},
		{200 * mb, 50 * mb, 35, 35, "1.4 times what is scanned"},
		{200 * mb, 150 * mb, 100, 100, "more than Go itself"},
	} {
		require.Equal(t, c.whenFrequent, percent(c.live, c.scanned, time.Second), c.what)
		require.Equal(t, c.whenRare, percent(c.live, c.scanned, 2*time.Minute), c.what)
	}
}

// The headroom follows what lives, round by round.
func TestKeep(t *testing.T) {
	follows := func(right func(percent uint64) bool) {
		t.Helper()
		require.Eventually(t, func() bool { return right(set()) }, time.Minute, time.Millisecond)
	}
	t.Setenv("GOGC", "")
	Keep()
	follows(func(percent uint64) bool { return percent > 100 })
	texts := make([]byte, 256<<20) // nothing in it is scanned
	follows(func(percent uint64) bool { return percent < 20 })
	lists := make([]*byte, 32<<20)
	follows(func(percent uint64) bool { return percent > 50 })
	runtime.KeepAlive(texts)
	texts = nil
	follows(func(percent uint64) bool { return percent == 100 })
	runtime.KeepAlive(texts)
	runtime.KeepAlive(lists)
}

// Who runs the plugin has the last word: Go reads GOGC as a process starts.
func TestEnvironmentSetsTheHeadroom(t *testing.T) {
	if os.Getenv("GOGC") == "75" {
		Keep()
		require.EqualValues(t, 75, set())
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), "GOGC=75")
	said, err := again.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "PASS")
}

// set is the headroom in percent after another round.
func set() uint64 {
	runtime.GC()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	return now[0].Value.Uint64()
}
