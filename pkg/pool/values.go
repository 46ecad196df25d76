package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// This file knows the values of closed columns, and the texts that mean no value (methodology section 1): each column
// is read by one of these functions, and [Values] counts what they do not know.

// Meaning is what a stored value means.
type Meaning uint8

const (
	Known    Meaning = iota // a value, or NULL
	NoValue                 // a text that means that there is none: it counts as NULL
	NotKnown                // not one of a closed column's values
)

// ReadText reads a text that no user chooses freely, such as a machine's name. Texts that mean no value are empty.
func ReadText(text string) (string, Meaning) {
	if meansNone(text, false) {
		return "", NoValue
	}
	return text, Known
}

// ReadFreeText reads a user's name or a reason: a user may be called nan, and a reason may be error.
func ReadFreeText(text string) (string, Meaning) {
	if meansNone(text, true) {
		return "", NoValue
	}
	return text, Known
}

// meansNone reports whether a text, as tools write it, means that there is no value.
func meansNone(text string, free bool) bool {
	text = strings.TrimSpace(text)
	if text == "" {
		return false // NULL itself
	}
	switch text[0] {
	case 'u', 'U':
		return strings.EqualFold(text, "undefined")
	case '<':
		return strings.EqualFold(text, "<NA>")
	case '{':
		return isPair(text, '}')
	case '[':
		return isPair(text, ']')
	case '"':
		return isPair(text, '"')
	case 'e', 'E', 'n', 'N':
		return !free && (strings.EqualFold(text, "error") || strings.EqualFold(text, "null") ||
			strings.EqualFold(text, "None") || strings.EqualFold(text, "NaN"))
	}
	return false
}

// isPair reports whether a text is two brackets or quotes with nothing but blanks between them.
func isPair(text string, end byte) bool {
	return len(text) > 1 && text[len(text)-1] == end && IsBlank(text[1:len(text)-1])
}

// ReadFlag reads a truth value: 1, 0, or empty if it is not known.
func ReadFlag(text string) (string, Meaning) {
	text = strings.TrimSpace(text)
	switch text {
	case "", "0", "1":
		return text, Known
	}
	for value, texts := range [][]string{{"false", "f", "no", "n"}, {"true", "t", "yes", "y"}} {
		if slices.ContainsFunc(texts, func(t string) bool { return strings.EqualFold(t, text) }) {
			return strconv.Itoa(value), Known
		}
	}
	if number, err := strconv.ParseFloat(text, 64); err == nil && (number == 0 || number == 1) {
		return strconv.Itoa(int(number)), Known // 1.0, of a column of floats
	}
	if meansNone(text, false) {
		return "", NoValue
	}
	return "", NotKnown
}

// closed returns a reader of a column whose values are known.
func closed(values ...string) func(string) (string, Meaning) {
	return func(text string) (string, Meaning) {
		text, meaning := ReadText(text)
		if text = strings.TrimSpace(text); text != "" && !slices.Contains(values, text) {
			meaning = NotKnown
		}
		return text, meaning
	}
}

// Readers of closed columns. A value that is not known stays as it is: State counts it as Other.
var (
	ReadSlotState = closed("Claimed", "Unclaimed", "Matched", "Preempting", "Drained", "Owner", "Backfill", "Shutdown",
		"Delete")
	ReadSlotType = closed("Partitionable", "Dynamic", "Static")
)

// ReadJobState reports whether a row of a queue file is of a running job.
func ReadJobState(text string) (running bool, meaning Meaning) {
	text, meaning = ReadText(text)
	switch text = strings.TrimSpace(text); {
	case strings.EqualFold(text, "running"), strings.EqualFold(text, "R"), text == "2":
		return true, Known
	case text == "", strings.EqualFold(text, "idle"), strings.EqualFold(text, "I"), text == "1":
		return false, meaning
	}
	return false, NotKnown
}

// Values counts, by column, texts that mean no value and values that are not known, with an example; zero: none.
type Values struct {
	found map[oddColumn]*oddValue
}

type oddColumn struct {
	column  string
	meaning Meaning
}

// oddValue is how often a column has such values, with one of them.
type oddValue struct {
	number  int
	example string
}

// mostExample is how many bytes of an example are shown.
const mostExample = 40

// Add counts values of a column.
func (v *Values) Add(column string, meaning Meaning, number int, example string) {
	if meaning == Known || number == 0 {
		return
	}
	if v.found == nil {
		v.found = map[oddColumn]*oddValue{}
	}
	of := In(v.found, oddColumn{column, meaning})
	if of.number += number; of.number == number {
		of.example = Example(example)
	}
}

// Example shortens an example.
func Example(text string) string {
	if len(text) > mostExample {
		text = strings.ToValidUTF8(text[:mostExample], "") + "…"
	}
	return strings.Clone(text)
}

// Merge adds the values that another one has counted.
func (v *Values) Merge(other *Values) {
	for of, odd := range other.found {
		v.Add(of.column, of.meaning, odd.number, odd.example)
	}
}

// Unknown reports whether there are values that are not known: figures depend on them.
func (v *Values) Unknown() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(v.found)),
		func(of oddColumn) bool { return of.meaning == NotKnown })
}

// Number is how many were counted.
func (v *Values) Number() (n int) {
	for _, odd := range v.found {
		n += odd.number
	}
	return n
}

// String tells what was counted, in a sentence without its full stop; "" if there is nothing.
func (v *Values) String() string {
	columns := map[Meaning][]string{}
	for _, of := range slices.SortedFunc(maps.Keys(v.found), func(a, b oddColumn) int {
		return cmp.Compare(a.column, b.column)
	}) {
		odd := v.found[of]
		columns[of.meaning] = append(columns[of.meaning],
			fmt.Sprintf("%s (%d, such as %q)", of.column, odd.number, odd.example))
	}
	var parts []string
	if list := columns[NotKnown]; list != nil {
		parts = append(parts, "values that are not known, in "+strings.Join(list, ", ")+
			": none of them counts as a known one")
	}
	if list := columns[NoValue]; list != nil {
		parts = append(parts, "texts that mean no value, in "+strings.Join(list, ", ")+": they count as empty")
	}
	return strings.Join(parts, "; ")
}

// GPUID returns the id of a GPU as it is compared and shown: without quotes and blanks around it, and with - for _,
// because collectors make ids from names of attributes, in which - cannot stand (methodology section 2).
func GPUID(text string) string {
	return strings.ReplaceAll(strings.Trim(text, " \t\r\n\"'"), "_", "-")
}

// CountingID reports whether an id of a GPU only counts the GPUs of its startd, such as CUDA0, and returns the number.
func CountingID(id string) (number string, counts bool) {
	kind := strings.TrimRight(id, "0123456789")
	if len(kind) == len(id) || len(id) > 16 || !strings.EqualFold(kind, "CUDA") && !strings.EqualFold(kind, "OCL") {
		return "", false
	}
	return id[len(kind):], true
}

// StartdOf returns the startd in a full slot name, slot1@glidein_7@host: between its first and second @; "" without.
func StartdOf(slotName string) string {
	_, rest, _ := strings.Cut(slotName, "@")
	startd, _, found := strings.Cut(rest, "@")
	if !found {
		return ""
	}
	return startd
}

// GPUOf returns the id of a GPU in a slot; one that only counts carries the slot's startd, if its name has one.
func GPUOf(id, slotName string) string {
	id = GPUID(id)
	if _, counts := CountingID(id); !counts {
		return id
	}
	if startd := StartdOf(slotName); startd != "" {
		return id + "@" + startd
	}
	return id
}
