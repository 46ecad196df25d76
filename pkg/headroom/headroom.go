// Package headroom says how far the heap may grow between two rounds of Go's garbage collector.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A round costs what it scans, memory that holds pointers; the days' segments hold none. So the headroom is in
// proportion to what is scanned, and collecting takes the same part of the time of whatever is allocated. A small heap
// has room for many answers before anything is collected; when rounds are rare, what they cost does not matter, and it
// gives the room back.
const (
	least     = 16 << 20         // bytes
	ofScanned = 1.4              // of the bytes that are scanned
	most      = 100              // percent of what lives: as Go itself
	small     = 192 << 20        // bytes: a heap that is not collected yet
	first     = 4800             // percent of 4 MB, as Go has it before anything lives: `small`
	rare      = 10 * time.Second // between two rounds
)

// Keep keeps the headroom right from now on, in place of what GOGC says by default; where the environment sets GOGC, it
// stays at that.
func Keep() {
	if os.Getenv("GOGC") == "" {
		afterRound(last{at: time.Now()})
	}
}

// last is what was set after a round.
type last struct {
	percent int
	at      time.Time
}

// round is garbage from the beginning: it is cleaned up after the next round of the collector.
type round struct{ _ *byte }

// afterRound sets the headroom for what lives now, and again after each round.
func afterRound(before last) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	metrics.Read(samples)
	now := last{before.percent, time.Now()}
	p := percent(samples[0].Value.Uint64(), samples[1].Value.Uint64(), now.at.Sub(before.at))
	// Setting it stops the world for a moment: not for a few percent.
	if max(p-now.percent, now.percent-p) > 5 {
		debug.SetGCPercent(p)
		now.percent = p
	}
	runtime.AddCleanup(new(round), afterRound, now)
}

// percent is the headroom in percent of what lives, which is what debug.SetGCPercent wants. since is how long ago the
// round before was.
func percent(live, scanned uint64, since time.Duration) int {
	lives := float64(max(live, 1))
	headroom := min(most*lives/100, max(least, ofScanned*float64(scanned)))
	if since < rare {
		headroom = max(headroom, small-lives)
	}
	return int(min(first, 100*headroom/lives))
}
