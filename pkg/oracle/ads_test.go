package oracle

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ad is a job ad: attributes by lower-case name.
type ad map[string]any

func readAds(t testing.TB, files ...string) (ads []ad) {
	for _, f := range files {
		file, err := os.Open(f)
		require.NoError(t, err)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			ads = append(ads, parseAd(t, lines.Bytes()))
		}
		require.NoError(t, lines.Err())
		require.NoError(t, file.Close())
	}
	slices.SortStableFunc(ads, func(a, b ad) int { // in the order of their writing
		return cmp.Or(cmp.Compare(must(a.date("RecordTime")), must(b.date("RecordTime"))),
			strings.Compare(a.text("GlobalJobId"), b.text("GlobalJobId")))
	})
	return ads
}

func parseAd(t testing.TB, text []byte) ad {
	var raw map[string]any
	require.NoError(t, json.Unmarshal(text, &raw))
	a := ad{}
	for k, v := range raw {
		a[strings.ToLower(k)] = v
	}
	return a
}

func (a ad) text(name string) string {
	s, _ := a[strings.ToLower(name)].(string)
	return s
}

func (a ad) number(name string) (float64, bool) {
	switch v := a[strings.ToLower(name)].(type) {
	case float64:
		return v, true
	case string:
		if x, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
			return x, true
		}
	}
	return 0, false
}

// date in microseconds, by a clock that is right; zero dates are none.
func (a ad) date(name string) (int64, bool) {
	ahead, _ := a["ahead"].(int64)
	if x, ok := a.number(name); ok {
		return int64(x*1e6) - ahead, x > 0
	}
	at, err := time.Parse(time.RFC3339, a.text(name))
	return at.UnixMicro() - ahead, err == nil
}

// accessPoint is the owner of the clock.
func (a ad) accessPoint() string {
	if name := a.text("ScheddName"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(a.text("GlobalJobId"), "#")
	return name
}

// clockDay is the UTC day that the ad belongs to, by its own clock.
func (a ad) clockDay() int64 {
	at, ok := a.end()
	if !ok {
		at, _ = a.date("JobCurrentStartDate")
	}
	ahead, _ := a["ahead"].(int64)
	return (at + ahead) / day
}

// name identifies an ad.
func (a ad) name() string {
	return fmt.Sprint(a.text("GlobalJobId"), "|", a.epoch(), "|", a["recordtime"], "|", a["jobcurrentstartdate"])
}

// earlierVacate reports whether the last vacate was that of an earlier run.
func (a ad) earlierVacate() bool {
	vacated, ok := a.date("LastVacateTime")
	return ok && vacated < must(a.date("JobCurrentStartDate"))
}

func (a ad) epoch() bool {
	if _, ok := a.date("EpochWriteDate"); ok {
		return true
	}
	meta, _ := a["metadata"].(map[string]any)
	source, _ := meta["condor_adstash_source"].(string)
	return strings.Contains(source, "epoch")
}

func (a ad) machine() string {
	if m := a.text("StartdName"); m != "" {
		return m
	}
	_, m, _ := strings.Cut(a.text("LastRemoteHost"), "@")
	return m
}

func (a ad) holds(gpus map[string]bool) bool {
	for _, id := range strings.FieldsFunc(a.text("AssignedGPUs"), func(r rune) bool { return r == ',' || r == ' ' }) {
		if !strings.HasSuffix(id, "...") && gpus[id] {
			return true
		}
	}
	return false
}

// lastRunEnd of a history ad, or the end of an epoch.
func (a ad) end() (int64, bool) {
	if a.epoch() {
		return a.date("EpochWriteDate")
	}
	if at, ok := a.date("CompletionDate"); ok {
		return at, true
	}
	start, begun := a.date("JobCurrentStartDate")
	last, _ := a.number("LastJobStatus")
	status, _ := a.number("JobStatus")
	if _, code := a.number("VacateReasonCode"); !code && status == 3 && last == 1 {
		if at, ok := a.date("LastVacateTime"); ok && !a.earlierVacate() {
			return at, true
		}
	}
	if wall, ok := a.number("LastRemoteWallClockTime"); ok && begun {
		return start + int64(wall*1e6), true
	}
	return a.date("EnteredCurrentStatus")
}

// outcome of the run that an ad's dates describe: "" if the ad does not say.
func (a ad) outcome() (outcome, cause string) {
	if code, ok := a.number("VacateReasonCode"); ok {
		switch int(code) {
		case 1011:
			return "evicted", "owner preemption"
		case 1018, 1019:
			return "evicted", "user or rank preemption"
		case 1013, 1014, 1015, 1016:
			return "evicted", "drain or maintenance"
		case 1002, 1007, 1008, 1012, 1020, 1021, 1024:
			return "evicted", "fault"
		case 1000, 1001, 1004, 1005, 1009, 1010, 1017, 1022, 1023:
			return "removed", ""
		case 1025, 1003, 1006, 1026, 1027, 1028, 1029, 1030, 1031, 1032, 1033, 1034, 1035, 1036:
			return "ambiguous", ""
		}
		if code < 1000 {
			return "held", ""
		}
		return "evicted", "unknown"
	}
	if a.epoch() {
		if a["exitcode"] != nil || a["exitbysignal"] != nil {
			return "completed", ""
		}
		return "", ""
	}
	status, _ := a.number("JobStatus")
	if _, ok := a.date("CompletionDate"); ok || status == 4 {
		return "completed", ""
	}
	switch status {
	case 3:
		last, ok := a.number("LastJobStatus")
		switch {
		case !ok || last == 2:
			return "removed", ""
		case last == 5:
			return "held", ""
		case last == 1 && !a.earlierVacate():
			return "evicted", "" // the cause by what is seen
		}
	case 5:
		return "held", ""
	}
	return "", ""
}
