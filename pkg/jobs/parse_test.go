package jobs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

func TestParseAd(t *testing.T) {
	long := strings.Repeat("x", 2*pool.MostText)
	for name, c := range map[string]struct {
		stored string
		want   Ad
	}{
		"refactored history": {
			`{"GlobalJobId": "ap#1.0#1759139166", "User": "u@d", "Owner": "u", "AssignedGPUs": "GPU-a,GPU-b", "StartdName": "m1", "StartdSlot": "backfill2_1",
			"JobStatus": 3, "LastJobStatus": 1, "EnteredCurrentStatus": 1759147521, "RecordTime": 1759147521,
			"LastRemoteWallClockTime": 2520.5,
			"VacateReasonCode": 1011,
			"NumHolds": 2, "JobStartDate": 1759144997, "JobCurrentStartDate": 1759144998, "JobLastStartDate": 1759144996,
			"LastVacateTime": 1759145000,
			"NumVacatesByReason": {"StartdPreemptExpression": 1}, "metadata": {"condor_adstash_source": "schedd_history"}}`,
			Ad{Kind: History, GlobalJobID: "ap#1.0#1759139166", AccessPoint: "ap", User: "u@d", Owner: "u",
				RecordTime: 1759147521, Machine: "m1", Slot: "backfill2_1", GPUs: []string{"GPU-a", "GPU-b"},
				JobStatus: 3, LastJobStatus: 1, EnteredCurrentStatus: 1759147521, LastRemoteWallClockTime: 2520.5,
				HasVacateReasonCode: true, VacateReasonCode: 1011,
				NumHolds: 2, JobStartDate: 1759144997, JobCurrentStartDate: 1759144998, JobLastStartDate: 1759144996,
				LastVacateTime: 1759145000, NumVacatesByReason: "StartdPreemptExpression=1"},
		},
		"legacy strings, cut GPU list": {
			`{"GlobalJobId": "j", "RecordTime": 1759147521, "AssignedGPUs": "GPU-a,GPU-b,GPU-c...", "vacatereasoncode": "1019", "lastremotewallclocktime": "2520.0",
			"numvacates": "1", "numvacatesbyreason": "[ StartdPreemptExpression = 1 ]", "EpochwriteDate": 1759147000, "FirstjobmatchDate": 1}`,
			Ad{Kind: Epoch, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1759147521, GPUs: []string{"GPU-a", "GPU-b"},
				HasVacateReasonCode: true, VacateReasonCode: 1019,
				LastRemoteWallClockTime: 2520, EpochWriteDate: 1759147000,
				NumVacatesByReason: "StartdPreemptExpression=1"},
		},
		"both spellings: the first usable value": {
			`{"GlobalJobId": "j", "vacatereasoncode": {"cut": 1}, "VacateReasonCode": 1011, "lastremotewallclocktime": "7", "LastRemoteWallClockTime": null}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", HasVacateReasonCode: true, VacateReasonCode: 1011,
				LastRemoteWallClockTime: 7},
		},
		"what a job asks for": {
			`{"GlobalJobId": "j", "Owner": "u", "QDate": 1759147000, "RequestGPUs": 2, "RequestCpus": 8, "RequestMemory": 65536, "RequestGPUMemory": 40000.0, "ChtcProjects": "B,A"}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", User: "u", Owner: "u", QDate: 1759147000, RequestGPUs: 2,
				RequestCPUs: 8, RequestMemory: 65536, RequestGPUMemory: 40000, ChtcProjects: "B,A"},
		},
		"the same in the legacy schema, one value an expression": {
			`{"GlobalJobId": "j", "QDate": 1759147000, "RequestGpus": 2, "RequestCpus": 8, "RequestMemory": "/Expr(1024 * NumJobStarts)/", "requestgpumemory": "40000", "chtcprojects": "B,A"}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", QDate: 1759147000, RequestGPUs: 2, RequestCPUs: 8,
				RequestGPUMemory: 40000, ChtcProjects: "B,A"},
		},
		"epoch milliseconds": {`{"GlobalJobId": "j", "RecordTime": 1759147200500, "CompletionDate": "1759147199000"}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1759147200, CompletionDate: 1759147199}},
		"zero, null and ISO dates": {
			`{"GlobalJobId": "j", "CompletionDate": 0, "LastVacateTime": null, "JobStartDate": "0", "RecordTime": "2025-09-29T12:00:00Z", "JobCurrentStartDate": "2025-09-29T07:00:00.5-05:00",
			"JobLastStartDate": "2025-09-29 12:00:00", "EnteredCurrentStatus": "1759147200.9"}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1759147200,
				JobCurrentStartDate: 1759147200, JobLastStartDate: 1759147200, EnteredCurrentStatus: 1759147200},
		},
		"condor_history: no adstash names": {
			`{"GlobalJobId": "j", "Owner": "u", "LastRemoteHost": "backfill2_1@glidein_7@m1", "AssignedGPUs": "GPU-a, GPU-b", "CompletionDate": 1759147521, "EnteredCurrentStatus": 1759147522, "ExitBySignal": false, "ExitCode": 0}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", User: "u", Owner: "u", Machine: "m1", Slot: "backfill2_1",
				GPUs: []string{"GPU-a", "GPU-b"}, Startd: "glidein_7", RecordTime: 1759147521, CompletionDate: 1759147521,
				EnteredCurrentStatus: 1759147522, Exited: true},
		},
		"epoch by its source only": {
			`{"GlobalJobId": "j", "RecordTime": 1759147521, "metadata": {"condor_adstash_source": "schedd_job_epoch_history"}, "ExitBySignal": true}`,
			Ad{Kind: Epoch, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1759147521, EpochWriteDate: 1759147521,
				Exited: true, BySignal: true},
		},
		"ExitBySignal false proves nothing": {
			`{"GlobalJobId": "j", "EpochWriteDate": 1759147521, "EpochAdType": "EPOCH", "ExitBySignal": false}`,
			Ad{Kind: Epoch, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1759147521, EpochWriteDate: 1759147521},
		},
		"begin of an epoch": {`{"GlobalJobId": "j", "EpochWriteDate": 1759147521, "epochadtype": "SPAWN"}`,
			Ad{Kind: Other, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1759147521, EpochWriteDate: 1759147521}},
		"file transfer": {`{"GlobalJobId": "j", "RecordTime": 1, "metadata": {"condor_adstash_source": "schedd_transfer_epoch_history"}}`, Ad{Kind: Other, GlobalJobID: "j", AccessPoint: "j", RecordTime: 1}},
		"no user":       {`{"GlobalJobId": "j", "User": " <Na> ", "Owner": "nan"}`, Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", User: "nan", Owner: "nan"}},
		"never ran":     {`{"GlobalJobId": "j", "StartdName": "UNKNOWN", "StartdSlot": "UNKNOWN", "AssignedGPUs": "undefined"}`, Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j"}},
		"lists": {`{"GlobalJobId": "j", "AssignedGPUs": ["GPU-a", "MIG-b", ""]}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", GPUs: []string{"GPU-a", "MIG-b"}}},
		"unreadable": {`{"GlobalJobId": "j", "VacateReasonCode": "/Expr(x)/", "RecordTime": "soon", "JobStartDate": 1e300, "NumHolds": [1], "metadata": 5, "JobStatus": "NaN", "AssignedGPUs": [1]}`, Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", Unread: 6}},
		"long texts": {`{"GlobalJobId": "j", "Owner": "` + long + `", "AssignedGPUs": "GPU-a,` + long + `",
			"NumVacatesByReason": "[ ` + long + ` = 1 ]"}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", User: pool.Cut(long), Owner: pool.Cut(long),
				GPUs: []string{"GPU-a", pool.Cut(long)}, Cut: 2}},
		"a negative duration": {`{"GlobalJobId": "j", "LastRemoteWallClockTime": -3}`,
			Ad{Kind: History, GlobalJobID: "j", AccessPoint: "j", LastRemoteWallClockTime: -3}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseAd([]byte(c.stored))
			require.NoError(t, err)
			c.want.PeakMiB = -1 // none of the ads has it
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, broken := range []string{``, `null`, `[]`, `7`, `{}`, `{"GlobalJobId": ""}`, `{"GlobalJobId": null}`,
		`{"GlobalJobId": "j"`} {
		_, err := ParseAd([]byte(broken))
		require.Error(t, err, broken)
	}
}

// The two schemas hold the same facts: parsed, they are equal.
func TestSchemasAgree(t *testing.T) {
	legacy, refactored := parsed(t, "testdata/history_legacy.jsonl"), parsed(t, "testdata/history_refactored.jsonl")
	require.NotEmpty(t, legacy)
	for i := range refactored {
		require.True(t, refactored[i].Refactored)
		require.False(t, legacy[i].Refactored)
		refactored[i].Refactored = false
	}
	if diff := cmp.Diff(refactored, legacy); diff != "" {
		t.Error(diff)
	}
	for _, ad := range refactored {
		require.Equal(t, History, ad.Kind)
		require.Zero(t, ad.Unread)
	}
	for _, ad := range parsed(t, "testdata/epochs.jsonl") {
		require.Equal(t, Epoch, ad.Kind)
		require.NotZero(t, ad.EpochWriteDate)
	}
}

func parsed(t *testing.T, name string) (ads []Ad) {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		ad, err := ParseAd(lines.Bytes())
		require.NoError(t, err)
		ads = append(ads, ad)
	}
	return ads
}

// requireErrorsOfEncodingJSON holds that damage is an error, worded by encoding/json.
func requireErrorsOfEncodingJSON(t require.TestingT, stored []byte) {
	type document struct{}
	want := json.Unmarshal(stored, &document{})
	switch _, err := ParseAd(stored); {
	case want != nil:
		require.EqualError(t, err, "job ad: "+want.Error(), "%q", stored)
	case err != nil:
		require.ErrorIs(t, err, errNoJob, "%q", stored)
	}
}

// The case of names, spaces, and other members change nothing, and any damage is an error.
func TestSpellings(t *testing.T) {
	cases := rapid.SampledFrom([]func(string) string{strings.ToLower, strings.ToUpper, strings.Clone})
	good := []string{"null", "true", "false", "0", "-0", "1.5e3", "-7", "1759147521", "1e999", "[]", "{}", `""`, `"x"`,
		`" 12 "`, `"TRUE"`, `"1759147521.5"`, `"2025-09-29T12:00:00Z"`, `"undefined"`, `"a\u0031\ud800"`, `"é\n"`,
		"\"\xff\"", `["GPU-a", "GPU-b..."]`, `[1, {"a": [null]}]`, `"GPU-a, GPU-b"`, `{"User": "u"}`}
	bad := []string{"01", "1.", "+1", "nul", "'x'", "\"\n\"", `"\x"`, `"\u12"`, "[1,]", `{"a"}`, "", "\xff", `1, "a"`}
	space := rapid.SampledFrom([]string{"", " ", "\n\t\r"})
	rapid.Check(t, func(t *rapid.T) {
		plain, members := []string{`"GlobalJobId": "j"`}, []string{`"globaljobid":"j"`}
		for range rapid.IntRange(0, 12).Draw(t, "members") {
			name := rapid.SampledFrom(append([]string{"metadata", "Cmd", "", "Übung", "\xff", `\"`}, Attributes...)).Draw(t, "name")
			value, spelled := rapid.SampledFrom(good).Draw(t, "value"), cases.Draw(t, "case")(name)
			if group, member, nested := strings.Cut(name, "."); nested {
				name, spelled = group, cases.Draw(t, "case")(group)
				plain = append(plain, fmt.Sprintf(`"%s": {"%s": %s}`, name, member, value))
				value = fmt.Sprintf(`{"%s": %s}`, cases.Draw(t, "case")(member), value)
			} else if slices.Contains(Attributes, name) {
				plain = append(plain, fmt.Sprintf(`"%s": %s`, name, value))
			}
			spelled = strings.Replace(spelled, "u", `\u0075`, 1)
			members = append(members, fmt.Sprintf(`%s"%s"%s:%s`, space.Draw(t, "space"), spelled, space.Draw(t, "space"), value))
		}
		want, err := ParseAd([]byte("{" + strings.Join(plain, ",") + "}"))
		require.NoError(t, err)
		got, err := ParseAd([]byte("{" + strings.Join(members, ",") + space.Draw(t, "space") + "}"))
		require.NoError(t, err)
		require.Equal(t, want, got)
		open, end := "{", "}"
		switch rapid.IntRange(0, 2).Draw(t, "broken") {
		case 0:
			members = append(members, `"Owner":`+rapid.SampledFrom(bad).Draw(t, "bad"))
		case 1:
			open = rapid.SampledFrom([]string{"[", "", "\f{", "\ufeff{", "{,", "{{", "null", "7 ", `"`}).Draw(t, "open")
		case 2:
			end = rapid.SampledFrom([]string{",}", "", "}}", "]", "} x", "},", "}\x00"}).Draw(t, "end")
		}
		requireErrorsOfEncodingJSON(t, []byte(open+strings.Join(members, ",")+end))
	})
	for _, depth := range []int{10, 9_999, 10_000, 10_001} {
		requireErrorsOfEncodingJSON(t, []byte(`{"a":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`}`))
	}
}

// Every attribute is read, and under its own name.
func TestEveryFieldIsRead(t *testing.T) {
	require.Len(t, Attributes, 42)
	for i, name := range Attributes {
		stored := fmt.Sprintf(`{%q: "StartdDraining=1"}`, name)
		if group, member, nested := strings.Cut(name, "."); nested {
			stored = fmt.Sprintf(`{%q: {%q: "history"}}`, group, member)
		}
		read, want := document{states: make([]state, 42), values: new(pool.Values)}, make([]state, 42)
		require.NoError(t, jsonv2.Unmarshal([]byte(stored), &read, asEncodingJSON))
		want[i] = read.states[i]
		require.NotZero(t, want[i], name)
		require.Equal(t, want, read.states)
	}
}

func FuzzParseAd(f *testing.F) {
	for _, name := range []string{"testdata/history_legacy.jsonl", "testdata/history_refactored.jsonl",
		"testdata/epochs.jsonl"} {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range strings.SplitAfterN(string(content), "\n", 6)[:5] {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"globaljobid": 7, "recordtime": "2025-01-01", "vacateReasonCode": "1e3", "metadata": {"condor_adstash_source": []}}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		requireErrorsOfEncodingJSON(t, stored)
		ad, err := ParseAd(stored)
		if err != nil {
			return
		}
		if ad.GlobalJobID == "" {
			t.Error("an ad without a job")
		}
		for _, date := range []Date{ad.RecordTime, ad.JobStartDate, ad.JobCurrentStartDate, ad.EpochWriteDate,
			ad.CompletionDate} {
			if date < 0 || date.Time().Year() > 9999 || date.Time().Location() != time.UTC {
				t.Errorf("date %v", date.Time())
			}
		}
		for _, gpu := range ad.GPUs {
			if gpu == "" || strings.HasSuffix(gpu, "...") {
				t.Errorf("GPU id %q", gpu)
			}
		}
		if ad.Kind == Epoch && ad.EpochWriteDate != ad.RecordTime && ad.EpochWriteDate == 0 {
			t.Error("an epoch without an end")
		}
		again, err := ParseAd(stored)
		if err != nil || !cmp.Equal(ad, again) {
			t.Error("not the same twice")
		}
	})
}
