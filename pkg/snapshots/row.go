package snapshots

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

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
	SlotBrokenReason
	BackfillSlot
	SlotType
	Cpus
	Memory
	Columns int = iota // how many there are
)

// Columns that are read in addition to a Row.
const (
	TimestampColumn = "timestamp"
	UsageColumn     = "GPUsAverageUsage"
)

// ColumnNames are the names of the columns in gpu_state.
var ColumnNames = [Columns]string{
	"Name", "AssignedGPUs", "State", "GPUs_DeviceName", "GPUs_GlobalMemoryMb", "PrioritizedProjects", "Machine",
	"RemoteOwner", "GlobalJobId", "PreventJobsReason", "SlotBrokenReason", "BackfillSlot", "SlotType", "Cpus", "Memory",
}

// RequiredColumns are those that a table must have; if one of the others is missing, it is empty.
var RequiredColumns = []string{
	ColumnNames[Name], ColumnNames[AssignedGPUs], ColumnNames[SlotState], ColumnNames[Machine], TimestampColumn,
}

// CheckColumns returns an error if a table lacks a required column.
func CheckColumns(has func(column string) bool) error {
	if lacking := slices.DeleteFunc(slices.Clone(RequiredColumns), has); len(lacking) > 0 {
		return fmt.Errorf("it has no column %s", strings.Join(lacking, ", "))
	}
	return nil
}

// Row is a row of gpu_state without its timestamp: the columns in order, each as its length and its text.
// NULL is the empty text. Equal rows have equal bytes.
type Row []byte

// Texts are the columns of a row.
type Texts [Columns]string

// Columns returns the texts of a row. They share their memory: who keeps one keeps a copy of it.
func (r Row) Columns() (texts Texts) {
	rest := string(r)
	for i := range texts {
		n, size := binary.Uvarint(r)
		texts[i], rest = rest[size:size+int(n)], rest[size+int(n):]
		r = r[size+int(n):]
	}
	return texts
}

// AppendText appends the text of the next column to a row that is being made.
func AppendText[T string | []byte](r Row, text T) Row {
	return append(binary.AppendUvarint(r, uint64(len(text))), text...)
}

// Number reads a number, such as GPUsAverageUsage; NaN if it is none.
func Number[T string | []byte](text T) float64 {
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return number
}

// Side is the side of the row's slot (methodology section 2).
func (t *Texts) Side() pool.Side {
	if flag, err := strconv.ParseFloat(strings.TrimSpace(t[BackfillSlot]), 64); err == nil && flag == 1 {
		return pool.Backfill
	}
	return pool.SideOf(t[Name])
}

// State is the state of the row's slot: Other if it is broken.
func (t *Texts) State() pool.State {
	if !pool.IsBlank(t[SlotBrokenReason]) {
		return pool.Other
	}
	return pool.ParseState(t[SlotState])
}

// GPUs are the ids of the row's GPUs, each of which counts as a row of its own; one empty id if it names none.
func (t *Texts) GPUs() []string {
	id := t[AssignedGPUs]
	if !pool.IsBlank(id) && !strings.Contains(id, ",") {
		return []string{id}
	}
	var ids []string
	for part := range strings.SplitSeq(id, ",") {
		if part = strings.TrimSpace(part); part != "" {
			ids = append(ids, part)
		}
	}
	if len(ids) == 0 {
		return []string{""}
	}
	return ids
}
