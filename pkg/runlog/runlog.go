// Package runlog reads the collector's log of its runs. It is separate from the collector, because the collector starts
// programs and locks files, and readers of the log must do neither.
package runlog

// Name of the file in the snapshot directory that records what each run of the collector did. Its table runs:
//
//	started   TEXT    when it began, UTC, YYYY-MM-DD HH:MM:SS.ffffff
//	seconds   REAL    how long it took; NULL: it runs, or was killed
//	timestamp TEXT    the snapshot that it wrote, as gpu_state has it (collector's local time); NULL: none
//	rows      INTEGER the rows of that snapshot
//	notes     TEXT    what could not be stored as it was; NULL: nothing
//	error     TEXT    why it wrote none; NULL: it did
//
// A gap without a run in it means that the collector was not started.
const Name = "collector_runs.db"

// TimeFormat is how a run's beginning is written.
const TimeFormat = "2006-01-02 15:04:05.000000"
