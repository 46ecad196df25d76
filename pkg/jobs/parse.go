package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unique"
)

// document is what is read of a stored ad, by encoding/json's rules: names match in any case. Where a document holds
// an attribute in two spellings (an index that changed from the legacy schema), the first usable value counts.
type document struct {
	GlobalJobId text
	ScheddName  text
	User, Owner text
	RecordTime  date

	StartdName, StartdSlot, LastRemoteHost text
	AssignedGPUs                           list

	JobStatus, LastJobStatus number

	JobStartDate, JobLastStartDate, JobCurrentStartDate  date
	CompletionDate, EnteredCurrentStatus, LastVacateTime date
	EpochWriteDate                                       date
	EpochAdType                                          text

	LastRemoteWallClockTime, RemoteWallClockTime, CommittedTime number

	VacateReasonCode number
	ExitCode         number
	ExitBySignal     number

	NumJobStarts, NumShadowStarts, NumVacates, NumHolds number

	QDate                                                     date
	RequestGPUs, RequestCpus, RequestMemory, RequestGPUMemory number
	ChtcProjects                                              text

	Metadata metadata

	Timestamp date `json:"@timestamp"`
}

// Attributes are the names that [ParseAd] reads, in HTCondor's spelling. A store need not deliver more.
var Attributes = []string{
	"GlobalJobId", "ScheddName", "User", "Owner", "RecordTime", "StartdName", "StartdSlot", "LastRemoteHost",
	"AssignedGPUs",
	"JobStatus", "LastJobStatus", "JobStartDate", "JobLastStartDate", "JobCurrentStartDate", "CompletionDate",
	"EnteredCurrentStatus", "LastVacateTime", "EpochWriteDate", "EpochAdType", "LastRemoteWallClockTime",
	"RemoteWallClockTime", "CommittedTime", "VacateReasonCode", "ExitCode", "ExitBySignal", "NumJobStarts",
	"NumShadowStarts", "NumVacates", "NumHolds", "QDate", "RequestGPUs", "RequestCpus", "RequestMemory",
	"RequestGPUMemory", "ChtcProjects", "metadata.condor_adstash_source", "@timestamp",
}

// ParseAd reads one document: a JSON object with attribute names in any case, numbers also as text, dates in epoch
// seconds or ISO 8601 (UTC without an offset), lists as text or arrays. It fails when stored is no JSON object or has
// no GlobalJobId.
func ParseAd(stored []byte) (Ad, error) {
	d := documents.Get().(*document)
	defer documents.Put(d)
	if err := d.read(stored); err != nil {
		return Ad{}, fmt.Errorf("job ad: %w", err)
	}
	if d.GlobalJobId.value == "" {
		return Ad{}, errNoJob
	}
	ad := Ad{
		Kind:        d.kind(),
		GlobalJobID: d.GlobalJobId.value,
		AccessPoint: shared(d.accessPoint()),
		User:        shared(cmp.Or(d.User.value, d.Owner.value)),
		RecordTime:  d.RecordTime.value,

		Machine: shared(d.machine()),
		Slot:    shared(d.slot()),
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

		LastRemoteWallClockTime: d.LastRemoteWallClockTime.value,
		RemoteWallClockTime:     d.RemoteWallClockTime.value,
		CommittedTime:           d.CommittedTime.value,

		HasVacateReasonCode: d.VacateReasonCode.set,
		VacateReasonCode:    d.VacateReasonCode.int(),
		Exited:              d.ExitCode.set || d.ExitBySignal.value != 0,

		NumJobStarts:    d.NumJobStarts.int(),
		NumShadowStarts: d.NumShadowStarts.int(),
		NumVacates:      d.NumVacates.int(),
		NumHolds:        d.NumHolds.int(),

		Owner:            shared(d.Owner.value),
		QDate:            d.QDate.value,
		ChtcProjects:     shared(d.ChtcProjects.value),
		RequestGPUs:      d.RequestGPUs.value,
		RequestCPUs:      d.RequestCpus.value,
		RequestMemory:    d.RequestMemory.value,
		RequestGPUMemory: d.RequestGPUMemory.value,
		Refactored:       d.Timestamp.set,
		Unread:           d.unread(),
	}
	if ad.RecordTime == 0 {
		ad.RecordTime = cmp.Or(ad.EpochWriteDate, ad.CompletionDate, ad.EnteredCurrentStatus)
	}
	if ad.Kind == Epoch && ad.EpochWriteDate == 0 {
		ad.EpochWriteDate = ad.RecordTime
	}
	return ad, nil
}

var errNoJob = errors.New("job ad: no GlobalJobId")

// kind classifies by content: an index holds what its site puts into it. Held jobs are known from startd history.
func (d *document) kind() Kind {
	source := strings.ToLower(d.Metadata.source.value)
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
	if _, _, found := strings.Cut(d.LastRemoteHost.value, "@"); found {
		return d.LastRemoteHost.value[strings.LastIndexByte(d.LastRemoteHost.value, '@')+1:]
	}
	return ""
}

func (d *document) slot() string {
	if slot := d.StartdSlot.value; slot != "" && slot != unknownHost {
		return slot
	}
	slot, _, _ := strings.Cut(d.LastRemoteHost.value, "@")
	return slot
}

func (d *document) unread() int {
	n := 0
	for _, t := range []*text{&d.GlobalJobId, &d.ScheddName, &d.User, &d.Owner, &d.StartdName, &d.StartdSlot,
		&d.LastRemoteHost, &d.EpochAdType, &d.Metadata.source} {
		n += t.unread()
	}
	for _, t := range []*date{&d.RecordTime, &d.JobStartDate, &d.JobLastStartDate, &d.JobCurrentStartDate,
		&d.CompletionDate,
		&d.EnteredCurrentStatus, &d.LastVacateTime, &d.EpochWriteDate} {
		n += t.unread()
	}
	for _, t := range []*number{&d.JobStatus, &d.LastJobStatus, &d.LastRemoteWallClockTime, &d.RemoteWallClockTime,
		&d.CommittedTime,
		&d.VacateReasonCode, &d.ExitCode, &d.ExitBySignal, &d.NumJobStarts, &d.NumShadowStarts, &d.NumVacates, &d.NumHolds} {
		n += t.unread()
	}
	return n + d.AssignedGPUs.unread()
}

// stored is the part that the value types below share: whether a usable value was seen, or only unusable ones.
type stored struct{ set, bad bool }

func (s *stored) unread() int {
	if s.bad && !s.set {
		return 1
	}
	return 0
}

// plain returns the text of a JSON text, number or boolean; ok is false for null, and bad notes anything else.
func (s *stored) plain(raw []byte) (plain []byte, ok bool) {
	switch raw[0] {
	case 'n': // null
		return nil, false
	case '{', '[':
		s.bad = true
		return nil, false
	case '"':
		plain = raw[1 : len(raw)-1]
		if bytes.IndexByte(plain, '\\') >= 0 || !utf8.Valid(plain) { // hardly any
			var unquoted string
			if err := json.Unmarshal(raw, &unquoted); err != nil {
				s.bad = true
				return nil, false
			}
			plain = []byte(unquoted)
		}
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
		t.value, t.set = string(plain), true
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
	switch {
	case bytes.EqualFold(plain, []byte("true")):
		n.value, n.set = 1, true
		return nil
	case bytes.EqualFold(plain, []byte("false")):
		n.value, n.set = 0, true
		return nil
	}
	value, err := strconv.ParseFloat(string(plain), 64)
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

// dateLayouts are read besides epoch seconds; without an offset they are UTC.
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

// epoch stores a date given in epoch seconds. Zero is "not stored"; what no clock of a pool can show is unusable
// (milliseconds, for instance, would lie after the year 9999).
func (d *date) epoch(seconds float64) {
	switch {
	case seconds == 0:
	case seconds > 0 && seconds < 253402300800:
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
			l.value = append(l.value, shared(member))
		}
	}
	l.set = l.value != nil
	return nil
}

type metadata struct{ source text }

func (m *metadata) UnmarshalJSON(raw []byte) error {
	var members struct {
		Source text `json:"condor_adstash_source"`
	}
	if raw[0] == '{' && !eachMember(raw, func(name, value []byte) {
		if string(name) == "condor_adstash_source" {
			_ = members.Source.UnmarshalJSON(value)
		}
	}) {
		members.Source = text{}
		if err := json.Unmarshal(raw, &members); err != nil {
			return err
		}
	}
	m.source = members.Source
	return nil
}

// shared returns one copy of a text that many ads have in common.
func shared(text string) string { return unique.Make(text).Value() }
