package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/chtc/gpureports/pkg/pool"
)

// document is the part of a stored ad that is read, by encoding/json's rules: names match in any case. If a document
// has an attribute in two spellings (an index that changed from the legacy schema), the first usable value counts.
type document struct {
	GlobalJobId text
	ScheddName  text
	User, Owner text
	RecordTime  date

	StartdName, StartdSlot, RemoteHost, LastRemoteHost text
	AssignedGPUs                                       list

	JobStatus, LastJobStatus number

	JobStartDate, JobLastStartDate, JobCurrentStartDate  date
	CompletionDate, EnteredCurrentStatus, LastVacateTime date
	EpochWriteDate, JobDisconnectedDate                  date
	EpochAdType                                          text

	LastRemoteWallClockTime number

	VacateReasonCode number
	ExitCode         number
	ExitBySignal     number

	NumHolds number

	QDate                                                     date
	RequestGPUs, RequestCpus, RequestMemory, RequestGPUMemory number
	ChtcProjects                                              text

	JobLastCheckpointTime                                          date
	HoldReasonCode, VacateReasonSubCode, SuccessCheckpointExitCode number
	NumVacatesByReason, NumVacatesByReasonPreExecution             counts

	Metadata metadata

	Timestamp date `json:"@timestamp"`
}

// Attributes are the names that [ParseAd] reads, in HTCondor's spelling. A store does not need to return others.
var Attributes = func() []string {
	names := []string{"metadata.condor_adstash_source"}
	for field := range reflect.TypeFor[document]().Fields() {
		if field.Type != reflect.TypeFor[metadata]() {
			names = append(names, cmp.Or(field.Tag.Get("json"), field.Name))
		}
	}
	return names
}()

// ParseAd reads one document: a JSON object with attribute names in any case, numbers possibly as text, dates in epoch
// seconds or ISO 8601 (UTC without an offset), lists as text or arrays. It fails if stored is not a JSON object or has
// no GlobalJobId.
func ParseAd(stored []byte) (Ad, error) {
	var d document
	if err := unmarshal(stored, &d); err != nil {
		return Ad{}, fmt.Errorf("job ad: %w", err)
	}
	if d.GlobalJobId.value == "" {
		return Ad{}, errNoJob
	}
	ad := Ad{
		Kind:        d.kind(),
		GlobalJobID: d.GlobalJobId.value,
		AccessPoint: d.accessPoint(),
		User:        cmp.Or(d.User.value, d.Owner.value),
		RecordTime:  d.RecordTime.value,

		Machine: d.machine(),
		Slot:    d.slot(),
		GPUs:    d.AssignedGPUs.value,

		JobStatus:     d.JobStatus.int(),
		LastJobStatus: d.LastJobStatus.int(),

		JobStartDate:         d.JobStartDate.value,
		JobLastStartDate:     d.JobLastStartDate.value,
		JobCurrentStartDate:  d.JobCurrentStartDate.value,
		CompletionDate:       d.CompletionDate.value,
		EnteredCurrentStatus: d.EnteredCurrentStatus.value,
		LastVacateTime:       d.LastVacateTime.value,
		EpochWriteDate:       d.EpochWriteDate.value,
		JobDisconnectedDate:  d.JobDisconnectedDate.value,

		LastRemoteWallClockTime: d.LastRemoteWallClockTime.value,

		HasVacateReasonCode: d.VacateReasonCode.set,
		VacateReasonCode:    d.VacateReasonCode.int(),
		Exited:              d.exited(),

		NumHolds: d.NumHolds.int(),

		Owner:            d.Owner.value,
		QDate:            d.QDate.value,
		ChtcProjects:     d.ChtcProjects.value,
		RequestGPUs:      d.RequestGPUs.value,
		RequestCPUs:      d.RequestCpus.value,
		RequestMemory:    d.RequestMemory.value,
		RequestGPUMemory: d.RequestGPUMemory.value,

		Refactored: d.Timestamp.set,
	}
	d.addVacates(&ad)
	d.addFaults(&ad)
	ad.fillDates()
	return ad, nil
}

// fillDates derives dates that some documents lack from others: when the ad was recorded, and when its epoch ended.
func (ad *Ad) fillDates() {
	if ad.RecordTime == 0 {
		ad.RecordTime = cmp.Or(ad.EpochWriteDate, ad.CompletionDate, ad.EnteredCurrentStatus)
	}
	if ad.Kind == Epoch && ad.EpochWriteDate == 0 {
		ad.EpochWriteDate = ad.RecordTime
	}
}

// addVacates adds the document's attributes about checkpoints, and about how runs ended.
func (d *document) addVacates(ad *Ad) {
	ad.JobLastCheckpointTime = d.JobLastCheckpointTime.value
	ad.HoldReasonCode = d.HoldReasonCode.int()
	ad.VacateReasonSubCode = d.VacateReasonSubCode.int()
	ad.NumVacatesByReason = d.NumVacatesByReason.value
	ad.NumVacatesByReasonPreExecution = d.NumVacatesByReasonPreExecution.value
}

var asEncodingJSON = jsonv2.JoinOptions(jsonv2.MatchCaseInsensitiveNames(true),
	jsonv1.MatchCaseSensitiveDelimiter(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// unmarshal does the same as encoding/json, which words the errors, in half the time.
func unmarshal[T any](stored []byte, into *T) error {
	if jsonv2.Unmarshal(stored, into, asEncodingJSON) == nil {
		return nil
	}
	var empty T
	*into = empty
	return json.Unmarshal(stored, into)
}

var errNoJob = errors.New("job ad: no GlobalJobId")

// kind classifies by content, because sites put different ads into one index. Held jobs are known from startd history.
func (d *document) kind() Kind {
	source := strings.ToLower(d.Metadata.Source.value)
	switch {
	case strings.Contains(source, "transfer"):
		return Other
	case d.EpochAdType.value != "" && !strings.EqualFold(d.EpochAdType.value, "EPOCH"):
		return Other
	case d.EpochWriteDate.value != 0 || strings.Contains(source, "epoch"):
		return Epoch
	}
	return History
}

func (d *document) accessPoint() string {
	if d.ScheddName.value != "" {
		return d.ScheddName.value
	}
	name, _, _ := strings.Cut(d.GlobalJobId.value, "#")
	return name
}

// adstash writes UNKNOWN for a job that never ran.
const unknownHost = "UNKNOWN"

func (d *document) machine() string {
	if host := d.StartdName.value; host != "" && host != unknownHost {
		return host[strings.LastIndexByte(host, '@')+1:]
	}
	if at := strings.LastIndexByte(d.host(), '@'); at >= 0 {
		return d.host()[at+1:]
	}
	return ""
}

// host names slot and machine as HTCondor does: slot1_2@host. LastRemoteHost of an epoch ad belongs to the previous
// run.
func (d *document) host() string { return cmp.Or(d.RemoteHost.value, d.LastRemoteHost.value) }

func (d *document) slot() string {
	if slot := d.StartdSlot.value; slot != "" && slot != unknownHost {
		return slot
	}
	slot, _, _ := strings.Cut(d.host(), "@")
	return slot
}

// exited reports whether the job ended by itself, not to continue from a checkpoint that it saved.
func (d *document) exited() bool {
	saved := d.SuccessCheckpointExitCode.set && d.ExitCode.value == d.SuccessCheckpointExitCode.value
	return d.ExitBySignal.value != 0 || d.ExitCode.set && !saved
}

// addFaults counts the values that are of no use, and the texts that were cut.
func (d *document) addFaults(ad *Ad) {
	texts := []*text{&d.GlobalJobId, &d.ScheddName, &d.User, &d.Owner, &d.StartdName, &d.StartdSlot, &d.RemoteHost,
		&d.LastRemoteHost, &d.EpochAdType, &d.Metadata.Source}
	read := []*stored{&d.RecordTime.stored, &d.JobStartDate.stored, &d.JobLastStartDate.stored,
		&d.JobCurrentStartDate.stored, &d.CompletionDate.stored, &d.EnteredCurrentStatus.stored,
		&d.LastVacateTime.stored, &d.EpochWriteDate.stored, &d.JobDisconnectedDate.stored,
		&d.JobLastCheckpointTime.stored, &d.JobStatus.stored, &d.LastJobStatus.stored,
		&d.LastRemoteWallClockTime.stored, &d.VacateReasonCode.stored, &d.ExitCode.stored, &d.ExitBySignal.stored,
		&d.NumHolds.stored, &d.HoldReasonCode.stored, &d.VacateReasonSubCode.stored,
		&d.SuccessCheckpointExitCode.stored, &d.AssignedGPUs.stored}
	kept := append([]string{d.ChtcProjects.value}, d.AssignedGPUs.value...)
	for _, t := range texts {
		read, kept = append(read, &t.stored), append(kept, t.value)
	}
	for _, s := range read {
		if s.bad && !s.set {
			ad.Unread++
		}
	}
	for _, text := range kept {
		if pool.IsCut(text) {
			ad.Cut++
		}
	}
}

// stored is common to the value types below: whether a usable value was seen, or only unusable ones.
type stored struct{ set, bad bool }

// plain returns the text of a JSON text, number or boolean; ok is false for null, and bad records any other value.
func (s *stored) plain(raw []byte) (plain []byte, ok bool) {
	switch raw[0] {
	case 'n': // null
		return nil, false
	case '{', '[':
		s.bad = true
		return nil, false
	case '"':
		plain, _ = jsontext.AppendUnquote(nil, raw) // an error would report invalid UTF-8, which it replaces
		plain = bytes.TrimSpace(plain)
		return plain, len(plain) > 0 && !bytes.EqualFold(plain, []byte("undefined"))
	}
	return raw, true
}

type text struct {
	stored
	value string
}

func (t *text) UnmarshalJSON(raw []byte) error {
	if plain, ok := t.plain(raw); ok && !t.set {
		t.value, t.set = pool.Cut(string(plain)), true
	}
	return nil
}

type number struct {
	stored
	value float64
}

func (n *number) UnmarshalJSON(raw []byte) error {
	plain, ok := n.plain(raw)
	if !ok || n.set {
		return nil
	}
	value, err := strconv.ParseFloat(string(plain), 64)
	switch {
	case bytes.EqualFold(plain, []byte("true")):
		value, err = 1, nil
	case bytes.EqualFold(plain, []byte("false")):
		value, err = 0, nil
	}
	if err != nil || math.IsNaN(value) || math.Abs(value) > 1<<53 {
		n.bad = true
		return nil
	}
	n.value, n.set = value, true
	return nil
}

func (n *number) int() int { return int(n.value) }

type date struct {
	stored
	value Date
}

// dateLayouts are accepted in addition to epoch seconds; dates without an offset are UTC.
var dateLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
	"2006-01-02T15:04:05Z0700"}

func (d *date) UnmarshalJSON(raw []byte) error {
	plain, ok := d.plain(raw)
	if !ok || d.set {
		return nil
	}
	if seconds, err := strconv.ParseFloat(string(plain), 64); err == nil {
		d.epoch(seconds)
		return nil
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, string(plain)); err == nil {
			d.epoch(float64(t.Unix()))
			return nil
		}
	}
	d.bad = true
	return nil
}

// epoch stores a date given in epoch seconds, or in milliseconds, which as seconds would lie after the year 5000. Zero
// means "not stored"; a date that no clock of a pool can show is unusable.
func (d *date) epoch(seconds float64) {
	const milliseconds = 1e11
	if seconds >= milliseconds {
		seconds /= 1000
	}
	switch {
	case seconds == 0:
	case seconds > 0 && seconds < milliseconds:
		d.value, d.set = Date(seconds), true
	default:
		d.bad = true
	}
}

type list struct {
	stored
	value []string
}

func (l *list) UnmarshalJSON(raw []byte) error {
	if l.set {
		return nil
	}
	members := []string(nil)
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &members); err != nil {
			l.bad = true
			return nil
		}
	} else if plain, ok := l.plain(raw); ok {
		members = strings.FieldsFunc(string(plain), func(r rune) bool { return strings.ContainsRune(`,;{}[]"' `, r) })
	}
	for _, member := range members {
		if member = strings.TrimSpace(member); member != "" && !strings.HasSuffix(member, "...") {
			l.value = append(l.value, strings.Clone(pool.Cut(member))) // not of a long text
		}
	}
	l.set = l.value != nil
	return nil
}

// counts holds numbers by name, such as StartdDraining=2,ReconnectFailed=1. The legacy schema stores them as the text
// of a ClassAd, [ StartdDraining = 2; ReconnectFailed = 1 ], the refactored one as an object.
type counts struct{ value string }

var plainCounts = strings.NewReplacer("{", "", "}", "", "[", "", "]", "", `"`, "", " ", "", ":", "=", ";", ",")

func (c *counts) UnmarshalJSON(raw []byte) error {
	if len(raw) > pool.MostText {
		return nil
	}
	if value := plainCounts.Replace(string(raw)); c.value == "" && strings.Contains(value, "=") {
		c.value = strings.Trim(value, ",")
	}
	return nil
}

type metadata struct {
	Source text `json:"condor_adstash_source"`
}

func (m *metadata) UnmarshalJSON(raw []byte) error {
	type members metadata // without this method
	*m = metadata{}
	if raw[0] != '{' {
		return nil
	}
	return unmarshal(raw, (*members)(m))
}
