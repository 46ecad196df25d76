package pool

import (
	"math"
	"regexp"
)

var oldDevice = regexp.MustCompile(`\b(GTX 1080|P100|Quadro|A30|A40)\b`)

// IsOldDevice tells the devices that `includeOldDevices: false` leaves out (methodology section 5): whole words only.
func IsOldDevice(device string) bool { return oldDevice.MatchString(device) }

// Memory classes of methodology section 5, in their order.
var MemoryClasses = []string{"<48GB", "48GB", "80GB", ">80GB", "Other", "Unknown"}

// MemoryClass sorts a GPU by its memory in MiB. NaN is a memory without a (readable) value.
func MemoryClass(mib float64) string {
	switch gb := mib / 1024; {
	case math.IsNaN(gb):
		return "Unknown"
	case gb < 44:
		return "<48GB"
	case gb <= 50:
		return "48GB"
	case gb >= 75 && gb <= 85:
		return "80GB"
	case gb > 85:
		return ">80GB"
	}
	return "Other"
}
