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
			if a := parseAd(t, lines.Bytes()); !dataSlot.MatchString(a.text("StartdSlot")) {
				ads = append(ads, a)
			}
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
	if code, ok := a.number("VacateReasonCode"); a.epoch() && ok && code == 1008 {
		if at, ok := a.date("JobDisconnectedDate"); ok && at > must(a.date("JobCurrentStartDate")) {
			return at, true
		}
	}
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
	if wall, ok := a.number("LastRemoteWallClockTime"); ok && begun && wall > 0 {
		return start + int64(wall*1e6), true
	}
	return a.date("EnteredCurrentStatus")
}

// written is the end of the run of an ad, by when an epoch ad was written.
func (a ad) written() int64 {
	if a.epoch() {
		return must(a.date("EpochWriteDate"))
	}
	return must(a.end())
}

// lost reports whether an ad has the code of a run that was lost with its machine.
func (a ad) lost() bool {
	code, _ := a.number("VacateReasonCode")
	return code == 1008
}

// tellsEnd reports whether a history ad tells when its run ended, and not only when the job's status last changed.
func (a ad) tellsEnd() bool {
	b := ad{}
	for k, v := range a {
		b[k] = v
	}
	delete(b, "enteredcurrentstatus")
	_, ok := b.end()
	return ok
}

// byCode is the outcome that a vacate code says.
func byCode(code, sub float64) (outcome, cause string) {
	switch int(code) {
	case 1011:
		return "evicted", "owner preemption"
	case 1018, 1019:
		return "evicted", "user or rank preemption"
	case 1010, 1013, 1014, 1015, 1016, 1037:
		return "evicted", "drain or maintenance"
	case 0, 1002, 1005, 1007, 1008, 1012, 1020, 1021, 1024:
		return "evicted", "fault"
	case 1000, 1001, 1004, 1009, 1017, 1022:
		return "evicted", "access point"
	case 1023:
		return "removed", ""
	case 1025:
		return "yielded", ""
	case 1003, 1006, 1026, 1027, 1028, 1029, 1030, 1031, 1032, 1033, 1034, 1035, 1036:
		return "ambiguous", ""
	}
	switch {
	case code < 1000 && sub <= -1000:
		return "evicted", "fault"
	case code < 1000:
		return "held", ""
	}
	return "evicted", "unknown"
}

// reasons are the vacate codes that the tiny pools count by name.
var reasons = map[string]float64{"StartdPreemptExpression": 1011, "StartdDraining": 1014, "SuccessfulCheckpoint": 1025,
	"ScheddVacate": 1022, "ReconnectFailed": 1008}

// earlierRuns is the outcome of all runs of the job before its last one, "" if they did not all end alike.
func (a ad) earlierRuns() (outcome, cause string) {
	left := map[float64]float64{}
	counts := func(name string) map[string]any {
		of, _ := a[strings.ToLower(name)].(map[string]any)
		if text := strings.Trim(a.text(name), "[] "); text != "" { // as the legacy schema stores them
			of = map[string]any{}
			for count := range strings.SplitSeq(text, ";") {
				reason, number, _ := strings.Cut(count, "=")
				n, _ := strconv.ParseFloat(strings.TrimSpace(number), 64)
				of[strings.TrimSpace(reason)] = n
			}
		}
		return of
	}
	code := func(name string) float64 {
		if c, ok := reasons[name]; ok {
			return c
		}
		return 1 // a hold
	}
	for name, n := range counts("NumVacatesByReason") {
		left[code(name)] += n.(float64)
	}
	for name, n := range counts("NumVacatesByReasonPreExecution") {
		left[code(name)] -= n.(float64)
	}
	if own, ok := a.number("VacateReasonCode"); ok && !a.epoch() {
		if own > 0 && own < 1000 {
			own = 1
		}
		left[own]--
	}
	for c, n := range left {
		if n > 0 && outcome != "" {
			return "", ""
		}
		if n > 0 {
			outcome, cause = byCode(c, 0)
		}
	}
	return outcome, cause
}

// outcome of the run that an ad's dates describe: "" if the ad does not say.
func (a ad) outcome() (outcome, cause string) {
	if _, held := a.number("HoldReasonCode"); held && a.epoch() {
		return "held", ""
	}
	if code, ok := a.number("VacateReasonCode"); ok {
		sub, _ := a.number("VacateReasonSubCode")
		return byCode(code, sub)
	}
	if a.epoch() {
		code, exited := a.number("ExitCode")
		if saved, saves := a.number("SuccessCheckpointExitCode"); saves && exited && saved == code {
			exited = false
		}
		if exited || a["exitbysignal"] == true {
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
			return "evicted", "" // the cause by the snapshots
		}
	case 5:
		return "held", ""
	}
	return "", ""
}
