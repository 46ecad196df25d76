package snapshots

import "encoding/binary"

// Column is a column of gpu_state that makes up a Row.
type Column int

// The columns of a Row, in their order in it.
const (
	Name Column = iota
	AssignedGPUs
	SlotState
	DeviceName
	GlobalMemoryMb
	PrioritizedProjects
	Machine
	RemoteOwner
	GlobalJobID
	PreventJobsReason
	Columns int = iota // how many there are
)

// Columns that are read beside a Row.
const (
	TimestampColumn = "timestamp"
	UsageColumn     = "GPUsAverageUsage"
)

// ColumnNames are the names of the columns in gpu_state.
var ColumnNames = [Columns]string{
	"Name", "AssignedGPUs", "State", "GPUs_DeviceName", "GPUs_GlobalMemoryMb", "PrioritizedProjects", "Machine",
	"RemoteOwner", "GlobalJobId", "PreventJobsReason",
}

// Row is a row of gpu_state without its timestamp: the columns in order, each as its length and its text.
// NULL is the empty text. Equal rows have equal bytes.
type Row []byte

// Columns returns the texts of a row. They share their memory: who keeps one keeps a copy of it.
func (r Row) Columns() (texts [Columns]string) {
	rest := string(r)
	for i := range texts {
		n, size := binary.Uvarint(r)
		texts[i], rest = rest[size:size+int(n)], rest[size+int(n):]
		r = r[size+int(n):]
	}
	return texts
}

// NewRow makes a row from its columns' texts.
func NewRow(texts [Columns]string) Row {
	var r Row
	for _, t := range texts {
		r = append(binary.AppendUvarint(r, uint64(len(t))), t...)
	}
	return r
}
