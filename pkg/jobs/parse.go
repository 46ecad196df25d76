package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chtc/gpureports/pkg/pool"
)

// document is an ad that is read, with the attributes from which some of its fields are derived.
type document struct {
	Ad
	RemoteHost, LastRemoteHost                         string // slot and machine as HTCondor names them: slot1_2@host
	EpochAdType                                        string
	Source                                             string `ad:"metadata.condor_adstash_source"`
	ExitCode, ExitBySignal, SuccessCheckpointExitCode  float64
	GPUsMemoryUsage                                    float64 // MiB
	NumVacatesByReason, NumVacatesByReasonPreExecution counts
	Timestamp                                          Date `ad:"@timestamp"`

	states []state // of the attributes
	values *pool.Values
}

// state says whether a document has a value of an attribute.
type state uint8

const (
	missing  state = iota
	unusable       // such as a word for a number
	usable
)

// metadata is the object that holds some attributes.
const metadata = "metadata"

// Attributes are the names that [ParseAd] reads, in HTCondor's spelling. A store does not need to return others.
var Attributes []string

var (
	fields  [][]int            // the fields of a document that hold the attributes, in their order
	isText  []bool             // which of them are texts
	numbers = map[string]int{} // of the attributes, by their names in lower case
)

func init() {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[document]()) {
		name := cmp.Or(field.Tag.Get("ad"), field.Name)
		if field.IsExported() && !field.Anonymous && name != "-" {
			numbers[strings.ToLower(name)] = len(fields)
			Attributes, fields = append(Attributes, name), append(fields, field.Index)
			isText = append(isText, field.Type == reflect.TypeFor[string]())
		}
	}
}

// readers know the texts that mean no value, in attributes whose texts figures depend on (methodology section 1).
var readers = map[string]func(string) (string, pool.Meaning){
	"AssignedGPUs": pool.ReadText, "StartdName": pool.ReadText, "StartdSlot": pool.ReadText, "Owner": pool.ReadFreeText,
	"User": pool.ReadFreeText,
}

// saysNothing reports whether a text of an attribute means no value, and counts it.
func (d *document) saysNothing(attribute string, raw jsontext.Value) bool {
	read, is := readers[attribute]
	if !is || raw.Kind() != '"' {
		return false
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	_, meaning := read(string(text))
	d.values.Add(attribute, meaning, 1, string(text))
	return meaning == pool.NoValue
}

// uncounted are the attributes that Unread does not count.
var uncounted = []string{"QDate", "RequestGPUs", "RequestCpus", "RequestMemory", "RequestGPUMemory", "ChtcProjects",
	"GPUsMemoryUsage", "@timestamp"}

var asEncodingJSON = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// ParseAd reads one document: a JSON object with attribute names in any case, numbers possibly as text, dates in epoch
// seconds or ISO 8601 (UTC without an offset), lists as text or arrays. It fails if stored is not a JSON object or has
// no GlobalJobId.
func ParseAd(stored []byte) (Ad, error) { return parse(stored, new(pool.Values)) }

// parse reads a document like [ParseAd], and counts the texts in it that mean no value.
func parse(stored []byte, values *pool.Values) (Ad, error) {
	d := &document{states: make([]state, len(fields)), values: values}
	if jsonv2.Unmarshal(stored, d, asEncodingJSON) != nil || d.GlobalJobID == "" {
		type document struct{} // for encoding/json, which words errors better
		return Ad{}, fmt.Errorf("job ad: %w", cmp.Or(json.Unmarshal(stored, &document{}), errNoJob))
	}
	for i, state := range d.states {
		if state == unusable && !slices.Contains(uncounted, Attributes[i]) {
			d.Unread++
		}
	}
	d.derive()
	return d.Ad, nil
}

var errNoJob = errors.New("no GlobalJobId")

// derive fills in the fields that are no attributes, and those that some documents lack.
func (d *document) derive() {
	d.place()
	d.Kind = d.kind()
	if d.AccessPoint == "" {
		d.AccessPoint, _, _ = strings.Cut(d.GlobalJobID, "#")
	}
	d.User = cmp.Or(d.User, d.Owner)
	has := func(name string) bool { return d.states[numbers[name]] == usable }
	d.HasVacateReasonCode = has("vacatereasoncode")
	d.Refactored = has("@timestamp")
	saved := has("successcheckpointexitcode") && d.ExitCode == d.SuccessCheckpointExitCode
	if d.BySignal = d.ExitBySignal != 0; has("exitcode") && !saved {
		d.ExitFailure = int(d.ExitCode)
	}
	if d.PeakMiB = -1; has("gpusmemoryusage") && d.GPUsMemoryUsage >= 0 && d.GPUsMemoryUsage <= pool.MostGPUMemory {
		d.PeakMiB = d.GPUsMemoryUsage
	}
	d.Exited = d.ExitBySignal != 0 || has("exitcode") && !saved
	d.Ad.NumVacatesByReason = string(d.NumVacatesByReason)
	d.Ad.NumVacatesByReasonPreExecution = string(d.NumVacatesByReasonPreExecution)
	if d.RecordTime == 0 {
		d.RecordTime = cmp.Or(d.EpochWriteDate, d.CompletionDate, d.EnteredCurrentStatus)
	}
	if d.Kind == Epoch && d.EpochWriteDate == 0 {
		d.EpochWriteDate = d.RecordTime
	}
}

// kind classifies by content, because sites put different ads into one index. Held jobs are known from startd history.
func (d *document) kind() Kind {
	source := strings.ToLower(d.Source)
	switch {
	case strings.Contains(source, "transfer"):
		return Other
	case d.EpochAdType != "" && !strings.EqualFold(d.EpochAdType, "EPOCH"):
		return Other
	case pool.IsDataSlot(d.Slot): // holds no GPU for a job
		return Other
	case d.EpochWriteDate != 0 || strings.Contains(source, "epoch"):
		return Epoch
	}
	return History
}

// place derives Slot and Machine, which hold StartdSlot and StartdName. adstash writes UNKNOWN if a job never ran.
func (d *document) place() {
	const unknown = "UNKNOWN"
	host := cmp.Or(d.RemoteHost, d.LastRemoteHost) // LastRemoteHost of an epoch ad belongs to the previous run
	if d.Slot == "" || d.Slot == unknown {
		d.Slot, _, _ = strings.Cut(host, "@")
	}
	if d.Machine == "" || d.Machine == unknown {
		_, d.Machine, _ = strings.Cut(host, "@")
	}
	d.Machine = d.Machine[strings.LastIndexByte(d.Machine, '@')+1:]
	d.Startd = strings.Clone(pool.StartdOf(host))
}

// UnmarshalJSONFrom reads all attributes.
func (d *document) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	return eachAttribute(nil, decoder, func(n int, value jsontext.Value) {
		if d.states[n] != usable && !d.saysNothing(Attributes[n], value) { // the first usable one counts
			into := reflect.ValueOf(d).Elem().FieldByIndex(fields[n]).Addr()
			d.states[n] = max(d.states[n], d.read(value, into.Interface()))
		}
	})
}

// eachAttribute calls found with the number and the value of each attribute of a JSON object that is one of Attributes,
// also of those in the object metadata. path begins the names of the object's.
func eachAttribute(path []byte, decoder *jsontext.Decoder, found func(n int, value jsontext.Value)) error {
	if start, err := decoder.ReadToken(); err != nil || start.Kind() != '{' {
		return cmp.Or(err, errNoJob)
	}
	var buffer [64]byte
	name := append(buffer[:0], path...)
	for decoder.PeekKind() == '"' {
		quoted, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		name, _ = jsontext.AppendUnquote(name[:len(path)], quoted) // replaces invalid UTF-8
		for i, c := range name {
			if 'A' <= c && c <= 'Z' {
				name[i] += 'a' - 'A'
			}
		}
		if string(name) == metadata && decoder.PeekKind() == '{' {
			if err := eachAttribute([]byte(metadata+"."), decoder, found); err != nil {
				return err
			}
			continue
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		if n, known := numbers[string(name)]; known {
			found(n, value)
		}
	}
	_, err := decoder.ReadToken() // }
	return err
}

// Compact returns an ad with only the attributes that [ParseAd] reads, in the order of their names, and with texts as
// it cuts them: it reads the same of it. Errors: stored is not a JSON object.
func Compact(stored []byte) ([]byte, error) {
	type member struct {
		name  string
		value jsontext.Value
	}
	var members []member
	err := eachAttribute(nil, jsontext.NewDecoder(bytes.NewReader(stored), asEncodingJSON),
		func(n int, value jsontext.Value) {
			text, state := plain(value)
			switch {
			case state == missing:
				return
			case isText[n] && len(text) > pool.MostText:
				value, _ = jsontext.AppendQuote(nil, pool.Cut(string(text))) // replaces invalid UTF-8
			default:
				value = slices.Clone(value)
				_ = value.Compact(asEncodingJSON) // it was read
			}
			members = append(members, member{Attributes[n], value})
		})
	if err != nil {
		return nil, fmt.Errorf("job ad: %w", err)
	}
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	compact := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			compact = append(compact, ',')
		}
		compact, _ = jsontext.AppendQuote(compact, m.name)
		compact = append(append(compact, ':'), m.value...)
	}
	return append(compact, '}'), nil
}

// read reads a value into a field of the document.
func (d *document) read(raw jsontext.Value, into any) state {
	text, state := plain(raw)
	switch into := into.(type) {
	case *counts:
		return into.read(raw)
	case *[]string:
		return d.readList(raw, text, into)
	case *string:
		*into = d.cut(string(text))
	case *Date:
		if state == usable {
			return into.read(text)
		}
	default:
		if state == usable {
			return readNumber(text, into)
		}
	}
	return state
}

// plain returns the text of a JSON text, number or boolean, nil without one.
func plain(raw jsontext.Value) ([]byte, state) {
	switch raw.Kind() {
	case 'n': // null
		return nil, missing
	case '{', '[':
		return nil, unusable
	case '"':
		unquoted, _ := jsontext.AppendUnquote(nil, raw) // an error would report invalid UTF-8, which it replaces
		text := bytes.TrimSpace(unquoted)
		if len(text) == 0 || bytes.EqualFold(text, []byte("undefined")) {
			return nil, missing
		}
		return text, usable
	}
	return raw, usable
}

// cut returns a text as it is kept.
func (d *document) cut(text string) string {
	text = pool.Cut(text)
	if pool.IsCut(text) {
		d.Cut++
	}
	return text
}

func readNumber(text []byte, into any) state {
	value, err := strconv.ParseFloat(string(text), 64)
	switch {
	case bytes.EqualFold(text, []byte("true")):
		value, err = 1, nil
	case bytes.EqualFold(text, []byte("false")):
		value, err = 0, nil
	}
	if err != nil || math.IsNaN(value) || math.Abs(value) > 1<<53 {
		return unusable
	}
	switch into := into.(type) {
	case *float64:
		*into = value
	case *int:
		*into = int(value)
	}
	return usable
}

// dateLayouts are accepted in addition to epoch seconds; dates without an offset are UTC.
var dateLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
	"2006-01-02T15:04:05Z0700"}

// read reads a date in epoch seconds, or in milliseconds, which as seconds would lie after the year 5000. Zero means
// "not stored"; a date that no clock of a pool can show is unusable.
func (d *Date) read(text []byte) state {
	seconds, err := strconv.ParseFloat(string(text), 64)
	for i := 0; err != nil && i < len(dateLayouts); i++ {
		var t time.Time
		t, err = time.Parse(dateLayouts[i], string(text))
		seconds = float64(t.Unix())
	}
	const milliseconds = 1e11
	if seconds >= milliseconds {
		seconds /= 1000
	}
	switch {
	case err == nil && seconds == 0:
		return missing
	case err == nil && seconds > 0 && seconds < milliseconds:
		*d = Date(seconds)
		return usable
	}
	return unusable
}

// readList reads an array, or a text with the members of a list.
func (d *document) readList(raw jsontext.Value, text []byte, into *[]string) state {
	members := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(`,;{}[]"' `, r) })
	switch raw.Kind() {
	case '{':
		return unusable
	case '[':
		if json.Unmarshal(raw, &members) != nil {
			return unusable
		}
	}
	for _, member := range members {
		if strings.HasSuffix(strings.TrimSpace(member), "...") {
			continue
		}
		if id, meaning := pool.ReadText(pool.GPUID(member)); id != "" && meaning == pool.Known {
			*into = append(*into, strings.Clone(d.cut(id))) // not of a long text
		}
	}
	if *into == nil {
		return missing
	}
	return usable
}

// counts holds numbers by name, such as StartdDraining=2,ReconnectFailed=1. The legacy schema stores them as the text
// of a ClassAd, [ StartdDraining = 2; ReconnectFailed = 1 ], the refactored one as an object.
type counts string

var plainCounts = strings.NewReplacer("{", "", "}", "", "[", "", "]", "", `"`, "", " ", "", ":", "=", ";", ",")

func (c *counts) read(raw jsontext.Value) state {
	if len(raw) <= pool.MostText {
		if value := plainCounts.Replace(string(raw)); strings.Contains(value, "=") {
			*c = counts(strings.Trim(value, ","))
			return usable
		}
	}
	return missing
}
