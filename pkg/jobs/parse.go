package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

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
	NumVacatesByReason, NumVacatesByReasonPreExecution counts
	Timestamp                                          Date `ad:"@timestamp"`

	states map[string]state // of the attributes, by their names in lower case
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

// fields are the fields of a document that hold an attribute, by its name in lower case.
var fields = map[string]reflect.StructField{}

func init() {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[document]()) {
		name := cmp.Or(field.Tag.Get("ad"), field.Name)
		if field.IsExported() && !field.Anonymous && name != "-" {
			Attributes = append(Attributes, name)
			fields[strings.ToLower(name)] = field
		}
	}
}

// uncounted are the attributes that Unread does not count.
var uncounted = []string{"qdate", "requestgpus", "requestcpus", "requestmemory", "requestgpumemory", "chtcprojects",
	"@timestamp"}

// ParseAd reads one document: a JSON object with attribute names in any case, numbers possibly as text, dates in epoch
// seconds or ISO 8601 (UTC without an offset), lists as text or arrays. It fails if stored is not a JSON object or has
// no GlobalJobId.
func ParseAd(stored []byte) (Ad, error) {
	d := &document{states: make(map[string]state, len(fields))}
	err := d.add("", stored)
	if err == nil && d.GlobalJobID == "" {
		err = errNoJob
	}
	if err != nil {
		var object map[string]json.RawMessage // encoding/json words it better
		return Ad{}, fmt.Errorf("job ad: %w", cmp.Or(json.Unmarshal(stored, &object), err))
	}
	for name, state := range d.states {
		if state == unusable && !slices.Contains(uncounted, name) {
			d.Unread++
		}
	}
	d.derive()
	return d.Ad, nil
}

var errNoJob = errors.New("no GlobalJobId")

// derive fills in the fields that are no attributes, and those that some documents lack.
func (d *document) derive() {
	d.Kind = d.kind()
	d.place()
	if d.AccessPoint == "" {
		d.AccessPoint, _, _ = strings.Cut(d.GlobalJobID, "#")
	}
	d.User = cmp.Or(d.User, d.Owner)
	d.HasVacateReasonCode = d.states["vacatereasoncode"] == usable
	d.Refactored = d.states["@timestamp"] == usable
	exited := d.states["exitcode"] == usable
	saved := d.states["successcheckpointexitcode"] == usable && d.ExitCode == d.SuccessCheckpointExitCode
	d.Exited = d.ExitBySignal != 0 || exited && !saved
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
	if d.Machine != "" && d.Machine != unknown {
		host = "@" + d.Machine
	}
	d.Machine = ""
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		d.Machine = host[at+1:]
	}
}

// add reads the attributes of a JSON object, whose names have a prefix.
func (d *document) add(prefix string, object []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	if start, err := decoder.ReadToken(); err != nil || start.Kind() != '{' {
		return cmp.Or(err, errNoJob)
	}
	for {
		member, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		if member.Kind() == '}' {
			break
		}
		name := prefix + strings.ToLower(member.String())
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		if field, known := fields[name]; known && d.states[name] != usable { // of two spellings, the first usable one counts
			into := reflect.ValueOf(d).Elem().FieldByIndex(field.Index).Addr()
			d.states[name] = max(d.states[name], d.read(value, into.Interface()))
		} else if name == metadata && value.Kind() == '{' {
			_ = d.add(metadata+".", value) // valid JSON
		}
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON object")
	}
	return nil
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
		*into = d.cut(text)
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

// plain returns the text of a JSON text, number or boolean, "" without one.
func plain(raw jsontext.Value) (string, state) {
	switch raw.Kind() {
	case 'n': // null
		return "", missing
	case '{', '[':
		return "", unusable
	case '"':
		unquoted, _ := jsontext.AppendUnquote(nil, raw) // an error would report invalid UTF-8, which it replaces
		text := strings.TrimSpace(string(unquoted))
		if text == "" || strings.EqualFold(text, "undefined") {
			return "", missing
		}
		return text, usable
	}
	return string(raw), usable
}

// cut returns a text as it is kept.
func (d *document) cut(text string) string {
	text = pool.Cut(text)
	if pool.IsCut(text) {
		d.Cut++
	}
	return text
}

func readNumber(text string, into any) state {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case strings.EqualFold(text, "true"):
		value, err = 1, nil
	case strings.EqualFold(text, "false"):
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
func (d *Date) read(text string) state {
	seconds, err := strconv.ParseFloat(text, 64)
	for _, layout := range dateLayouts {
		if err == nil {
			break
		}
		var t time.Time
		t, err = time.Parse(layout, text)
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
func (d *document) readList(raw jsontext.Value, text string, into *[]string) state {
	members := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`,;{}[]"' `, r) })
	switch raw.Kind() {
	case '{':
		return unusable
	case '[':
		if json.Unmarshal(raw, &members) != nil {
			return unusable
		}
	}
	for _, member := range members {
		if member = strings.TrimSpace(member); member != "" && !strings.HasSuffix(member, "...") {
			*into = append(*into, strings.Clone(d.cut(member))) // not of a long text
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
