package timeline

// Oddities counts what was odd about the timestamps of a day.
type Oddities struct {
	Back       int // snapshots that stand out of order in their file
	Missing    int // snapshots with a local time that does not exist
	Unreadable int // rows whose timestamp is none
	Twice      int // snapshots of the repeated hour that may be two with the same text
}

// Oddities are those of the day.
func (d *Day) Oddities() Oddities {
	return Oddities{int(d.notes.Back), int(d.notes.Missing), int(d.notes.Unreadable), int(d.notes.Twice)}
}
