package snapshots

import "regexp"

var monthFile = regexp.MustCompile(`^gpu_state_(\d{4}-\d{2})\.([a-z]+)$`)

// MonthFile returns the name of the file of a month (YYYY-MM, in the collector's time) in a format ("db", "parquet").
func MonthFile(month, format string) string { return "gpu_state_" + month + "." + format }

// ParseMonthFile returns the month (YYYY-MM) and the format of a month file's name; ok is false for other names: copies
// such as gpu_state_2025-09_dev.db are not data.
func ParseMonthFile(name string) (month, format string, ok bool) {
	found := monthFile.FindStringSubmatch(name)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}
