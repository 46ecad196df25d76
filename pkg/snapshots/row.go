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

// Odd is a column of a row with a text that means no value, or a value that is not known.
type Odd struct {
	Column  Column
	Meaning pool.Meaning
	Text    string // as it is stored
}

// readers read the columns that hold texts, and those that can hold one for a number (methodology section 1).
var readers = [Columns]func(string) (string, pool.Meaning){
	Name: pool.ReadText, AssignedGPUs: pool.ReadText, SlotState: pool.ReadSlotState, DeviceName: pool.ReadText,
	PrioritizedProjects: pool.ReadText, Machine: pool.ReadText, RemoteOwner: pool.ReadFreeText,
	GlobalJobID: pool.ReadText, PreventJobsReason: pool.ReadFreeText, SlotBrokenReason: pool.ReadFreeText,
	BackfillSlot: pool.ReadFlag, SlotType: pool.ReadSlotType, GlobalMemoryMb: pool.ReadText, Cpus: pool.ReadText,
	Memory: pool.ReadText,
}

// Values returns the values of a row: its columns as texts, empty where a text means no value, and what is odd about
// them. They share their memory: who keeps one keeps a copy of it.
func (r Row) Values() (texts Texts, odd []Odd) {
	texts = r.Columns()
	for column, read := range readers {
		if texts[column] == "" {
			continue
		}
		value, meaning := read(texts[column])
		if meaning != pool.Known {
			odd = append(odd, Odd{Column(column), meaning, texts[column]})
		}
		texts[column] = value
	}
	return texts, odd
}

// AppendText appends the text of the next column to a row that is being made.
func AppendText[T string | []byte](r Row, text T) Row {
	return append(binary.AppendUvarint(r, uint64(len(text))), text...)
}

// Number reads a number, such as GPUsAverageUsage; NaN if it is none.
func Number[T string | []byte](text T) float64 {
	if len(text) == 0 { // an error would take longer to make than a number to read
		return math.NaN()
	}
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return number
}

// Side is the side of the row's slot (methodology section 2).
func (t *Texts) Side() pool.Side {
	if t[BackfillSlot] == "1" {
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

// GPUs are the ids of the row's GPUs, each of which counts as a row of its own; one empty id if it names none. They can
// be a list in brackets, { "GPU-a", "GPU-b" }.
func (t *Texts) GPUs() []string {
	var ids []string
	for part := range strings.SplitSeq(strings.Trim(t[AssignedGPUs], "{}[] "), ",") {
		id, meaning := pool.ReadText(pool.GPUOf(part, t[Name]))
		if id != "" && meaning == pool.Known {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return []string{""}
	}
	return ids
}
