package snapshots

import "encoding/binary"

// Column is a column of gpu_state that the product reads.
type Column int

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
	columns int = iota
)

// timestampColumn is read beside the columns above, as its own text.
const timestampColumn = "timestamp"

var columnNames = [columns]string{"Name", "AssignedGPUs", "State", "GPUs_DeviceName", "GPUs_GlobalMemoryMb", "PrioritizedProjects", "Machine", "RemoteOwner", "GlobalJobId", "PreventJobsReason"}

// required columns; where one of the others is missing, it is empty.
var required = []Column{Name, AssignedGPUs, SlotState, Machine}

// Row is a row of gpu_state without its timestamp: the columns in order, each as its length and its text.
// NULL is the empty text. Equal rows have equal bytes.
type Row []byte

// Columns returns the texts of a row.
func (r Row) Columns() (texts [columns]string) {
	for i := range texts {
		n, size := binary.Uvarint(r)
		texts[i] = string(r[size : size+int(n)])
		r = r[size+int(n):]
	}
	return texts
}

// NewRow makes a row from its columns' texts.
func NewRow(texts [columns]string) Row {
	var r Row
	for _, t := range texts {
		r = append(binary.AppendUvarint(r, uint64(len(t))), t...)
	}
	return r
}
