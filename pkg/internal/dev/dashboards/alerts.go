package dashboards

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/query"
)

// Rule is an alert rule: queries over the newest data, and an expression of them that fires where it is not zero.
type Rule struct {
	UID, Title string
	Queries    []RuleQuery
	// Condition combines the queries' numbers ($A, $B …), group by group.
	Condition string
	For       time.Duration
	Severity  string
	// NoData and Failed are the states when no query has an answer and when one fails, OK and KeepLast if they are empty:
	// another rule reports missing data, so that one failure causes one alert.
	NoData, Failed       string
	Summary, Description string
	Dashboard, Panel     string // where to look, by UID and title
	Paused               bool   // it has to be switched on
	Of                   string // the label whose value the dashboard's variable of the same name gets; "" for none
}

// RuleQuery asks over the time from Since to Until before now. An answer of series is reduced to one number each.
type RuleQuery struct {
	Query
	Since, Until time.Duration
	Reduce       string // min, max, mean, last … of a series; "" for tables
}

// over asks over the time up to now.
func over(since time.Duration, q Query) []RuleQuery { return []RuleQuery{{Query: q, Since: since}} }

// alerting is the state of a rule that fires without an answer.
const alerting = "Alerting"

const day = 24 * time.Hour

// Thresholds that panels show too.
const (
	underused  = 30   // percent allocated
	stale      = 2700 // seconds since the newest snapshot: three at the usual distance of 15 minutes
	jobsBehind = 7200 // seconds since the newest job ad
	fewLinked  = 80   // percent of backfill runs that have a job ad
	clockOff   = 120  // seconds by which an access point's clock is off

	freeWhileWaiting = 8  // GPUs
	stranded         = 4  // GPUs, for one reason
	evictedOften     = 5  // evictions of one job in a day
	idleGPUs         = 4  // of a model
	halfUsed         = 50 // percent
	promised         = 90 // percent of owners' waits that start within 10 minutes
)

// Rules are the alert rules. Their thresholds are a beginning: every pool will want to set its own.
func Rules() []Rule {
	realSlots := query.Filter{Slots: []string{"Real"}}
	h200 := real(query.Filter{Devices: []string{`/\bH200\b/`}})
	freeByMachine := ask("allocation", "timeseries").by("machine").of("free").where(h200)
	freeByMachine.Bucket, freeByMachine.Limit, freeByMachine.CompleteBucketsOnly = "1h", 2000, true
	health := func(metric string) []RuleQuery { return over(day, ask("allocation", "health").of(metric)) }
	return []Rule{
		{
			UID: "gpureports-underused", Title: "GPU category underused",
			Queries:   over(6*time.Hour, ask("allocation", "summary").by("category").of("allocatedPercent").where(realSlots)),
			Condition: fmt.Sprintf("$A < %d", underused), For: time.Hour, Severity: "warning",
			Summary: `{{ $labels.category }}: {{ printf "%.0f" $values.A.Value }}% of the GPUs are allocated`,
			Description: "Over the last 6 hours jobs held less than 30% of the GPUs that could be allocated in " +
				"this category.",
			Dashboard: "gpureports-pool", Panel: "Allocated % over time",
		},
		{
			UID: "gpureports-stale", Title: "GPU snapshots stale",
			Queries:   health("snapshotAgeSeconds"),
			Condition: fmt.Sprintf("$A > %d || $A < 0", stale), For: 5 * time.Minute, Severity: "critical", NoData: alerting,
			Failed:  alerting,
			Summary: `{{ with $values.A }}The newest snapshot of the GPU pool is {{ humanizeDuration .Value }} old{{ else }}There is no snapshot of the GPU pool{{ end }}`,
			Description: "For 45 minutes the collector has written no snapshot, or the snapshots cannot be read, or the " +
				"newest one is ahead of the clock: check the collector, its clock and time zone, and the data source's health " +
				"check. Other rules can't be evaluated until then.",
			Dashboard: "gpureports-pool", Panel: newestSnapshot,
		},
		{
			UID: "gpureports-vanished", Title: "GPUs vanished",
			Queries: []RuleQuery{
				{Query: ask("allocation", "health").of("gpusLost"), Since: day},
				{Query: ask("allocation", "health").of("gpusSeen"), Since: day},
			},
			Condition: "100 * $A > 2 * ($A + $B)", For: 30 * time.Minute, Severity: "warning",
			Summary: `{{ printf "%.0f" $values.A.Value }} GPUs have vanished from the pool`,
			Description: "More than 2% of the GPUs that were seen in the last 24 hours are missing from the " +
				"newest snapshot.",
			Dashboard: "gpureports-pool", Panel: "Machines",
		},
		{
			UID: "gpureports-h200-free", Title: "Machine with a free H200 for a day",
			Queries:   []RuleQuery{{Query: freeByMachine, Since: 25 * time.Hour, Reduce: "min"}},
			Condition: "$A >= 1", For: 30 * time.Minute, Severity: "info",
			Summary: `{{ $labels.machine }} has had {{ printf "%.1f" $values.A.Value }} H200 free for a day`,
			Description: "In each of the last 24 complete hours at least one H200 of this machine was free on average: no " +
				"job held it, on a primary or a backfill slot, and none was kept away from it.",
			Dashboard: "gpureports-machine", Panel: "State of each GPU", Of: "machine",
		},
		{
			UID: "gpureports-evictions", Title: "Spike in backfill evictions",
			Queries: []RuleQuery{
				{Query: ask("evictions", "summary").by("device").of("ratePer100GpuHours"), Since: 6 * time.Hour},
				{Query: ask("evictions", "summary").by("device").of("evictions"), Since: 6 * time.Hour},
				{Query: ask("evictions", "summary").by("device").
					of("ratePer100GpuHours"), Since: 7*day + 6*time.Hour, Until: 6 * time.Hour},
			},
			Condition: "$B >= 10 && $A > 3 * $C", For: 15 * time.Minute, Severity: "warning",
			Summary: `{{ $labels.device }}: {{ printf "%.1f" $values.A.Value }} evictions per 100 backfill GPU hours`,
			Description: "In the last 6 hours backfill jobs on this device were evicted more than three times as " +
				"often per GPU hour as in the 7 days before, and at least 10 times.",
			Dashboard: "gpureports-backfill-evictions", Panel: "Evictions by device", Of: "device",
		},
		{
			UID: "gpureports-evicted-often", Title: "A job was evicted five times in a day",
			Queries:   over(day, ask("evictions", "summary").by("user").of("maxEvictionsPerJob")),
			Condition: fmt.Sprintf("$A >= %d", evictedOften), For: 15 * time.Minute, Severity: "info",
			Summary: `{{ $labels.user }}: a backfill job was evicted {{ printf "%.0f" $values.A.Value }} times in 24 hours`,
			Description: "A job that is evicted again and again may never get through: it should save checkpoints more often, " +
				"be shorter, or run elsewhere. The panel lists such jobs.",
			Dashboard: "gpureports-backfill-evictions", Panel: jobsEvicted, Of: "user",
		},
		{
			UID: "gpureports-supply", Title: "Backfill supply collapsed",
			Queries: []RuleQuery{
				{Query: ask("backfillAvailability", "summary").by().of("available"), Since: 2 * time.Hour},
				{Query: ask("backfillAvailability", "summary").by().of("used"), Since: 2 * time.Hour},
				{Query: ask("backfillAvailability", "summary").by().
					of("available"), Since: 7*day + 2*time.Hour, Until: 2 * time.Hour},
				{Query: ask("backfillAvailability", "summary").by().
					of("used"), Since: 7*day + 2*time.Hour, Until: 2 * time.Hour},
			},
			Condition: "$C + $D >= 5 && $A + $B < 0.5 * ($C + $D)", For: time.Hour, Severity: "warning",
			Summary: `Backfill supply is below half its usual level`,
			Description: "Over the last 2 hours backfill jobs used, or could have used, less than half as many GPUs as in the " +
				"7 days before.",
			Dashboard: "gpureports-backfill", Panel: "Backfill pool",
		},
		{
			UID: "gpureports-idle", Title: fmt.Sprintf("%d or more GPUs of a device held idle for 2 h", idleGPUs),
			Queries:   over(3*time.Hour, ask("utilization", "summary").by("device").of("idleNow")),
			Condition: fmt.Sprintf("$A >= %d", idleGPUs), For: 15 * time.Minute, Severity: "warning",
			Summary: `{{ $labels.device }}: {{ printf "%.0f" $values.A.Value }} GPUs are held but idle`,
			Description: "Jobs hold these GPUs in the newest snapshot and have not computed on them for 2 hours or more, by " +
				"HTCondor's GPUsAverageUsage. The panel lists them.",
			Dashboard: "gpureports-utilization", Panel: idleNow, Of: "device",
		},
		{
			UID: "gpureports-h200-unused", Title: "H200 utilization below 50% for a day",
			Queries: over(day, ask("utilization", "summary").by().of("utilizationPercent").
				where(query.Filter{Devices: []string{`/\bH200\b/`}})),
			Condition: fmt.Sprintf("$A < %d", halfUsed), For: time.Hour, Severity: "info",
			Summary: `Held H200 compute {{ printf "%.0f" $values.A.Value }}% of the time`,
			Description: "Over the last 24 hours the H200s that jobs held computed for less than half of the time that " +
				"HTCondor's reports cover.",
			Dashboard: "gpureports-utilization", Panel: usedOverTime,
		},
		{
			UID: "gpureports-free-while-waiting", Title: "GPUs stay free while jobs wait for them",
			Queries:   over(6*time.Hour, ask("demand", "summary").by().of("freeWhileWaiting")),
			Condition: fmt.Sprintf("$A >= %d", freeWhileWaiting), For: time.Hour, Severity: "info",
			Summary: `{{ printf "%.0f" $values.A.Value }} GPUs are free that match waiting jobs by number and memory`,
			Description: "Over the last 6 hours these GPUs were free on average while jobs waited for such GPUs. " +
				"Something other than GPUs is missing: processors, memory, disk, or requirements that no machine meets.",
			Dashboard: "gpureports-demand", Panel: waitingAndFree,
		},
		{
			UID: "gpureports-stranded", Title: "GPUs stranded by CPUs or memory for 2 h while jobs wait",
			Queries: []RuleQuery{{
				Query: ask("demand", "unused").by().of("gpus").where(query.Filter{Reasons: []string{"cpus", "memory"}}),
				Since: 2 * time.Hour, Reduce: "min",
			}},
			Condition: fmt.Sprintf("$A >= %d", stranded), For: 15 * time.Minute, Severity: "info",
			Summary: `{{ printf "%.0f" $values.A.Value }} GPUs are free that waiting jobs cannot use: {{ $labels.reason }}`,
			Description: "Over the last 2 hours these GPUs were free on average while jobs that could have used them waited: " +
				"the CPUs or the memory of their machines are used up. The panel lists the machines and what is missing there.",
			Dashboard: "gpureports-demand", Panel: unusedNow,
		},
		{
			UID: "gpureports-guarantee", Title: "Owners wait for GPUs that backfill holds", Paused: true,
			Queries: over(7*day, ask("demand", "summary").by("project").of("withinPercent").
				where(query.Filter{OwnGPUs: []string{"backfill"}})),
			Condition: fmt.Sprintf("$A < %d", promised), For: time.Hour, Severity: "warning",
			Summary: `{{ $labels.project }}: {{ printf "%.0f" $values.A.Value }}% of the waits for own GPUs that backfill held ended within 10 minutes`,
			Description: "Over the last 7 days fewer than 90% of the project's jobs started within 10 minutes if backfill " +
				"jobs held its own GPUs when they began to wait. It needs the collector's queue files and job ads, and is paused " +
				"until you enable it.",
			Dashboard: "gpureports-owners", Panel: guarantee, Of: "project",
		},
		{
			UID: "gpureports-suspect", Title: "Machine on which jobs fail",
			Queries:   over(day, ask("utilization", failures).by("machine").of("suspect")),
			Condition: "$A > 0", For: time.Hour, Severity: "warning",
			Summary: `{{ $labels.machine }}: far more jobs fail at once than those of the same users elsewhere`,
			Description: "Over the last 24 hours jobs of more than one user failed within 10 minutes on this machine, more " +
				"often than chance and their own bugs explain. The panel shows how many, and the commonest reason.",
			Dashboard: "gpureports-machine", Panel: failuresHere, Of: "machine",
		},
		{
			UID: "gpureports-jobs-behind", Title: "Job ads behind",
			Queries:   health("jobsLagSeconds"),
			Condition: fmt.Sprintf("$A > %d", jobsBehind), For: 15 * time.Minute, Severity: "warning",
			Failed:  alerting,
			Summary: `{{ with $values.A }}The newest job ad is {{ humanizeDuration .Value }} old{{ else }}Job ads cannot be read{{ end }}`,
			Description: "For 2 hours no job ad has arrived in Elasticsearch (or the job file), or job ads can't be queried: " +
				"check condor_adstash. Until then, ends of backfill runs and evictions are inferred from snapshots only.",
			Dashboard: "gpureports-pool", Panel: "Freshness",
		},
		{
			UID: "gpureports-link-rate", Title: "Few backfill runs have a job ad",
			Queries:   health("linkRate"),
			Condition: fmt.Sprintf("$A < %d", fewLinked), For: 2 * time.Hour, Severity: "warning",
			Summary: `{{ printf "%.0f" $values.A.Value }}% of the backfill runs have a job ad`,
			Description: "Over the last 24 hours fewer than 80% of the backfill runs that ended could be linked with a job " +
				"ad; below 50%, no figures on completions are shown. An access point may not send its ads, or clocks may differ " +
				"by minutes.",
			Dashboard: "gpureports-pool", Panel: "Freshness",
		},
		{
			UID: "gpureports-clock", Title: "Clock of an access point is off",
			Queries:   health("clockErrorSeconds"),
			Condition: fmt.Sprintf("$A > %d", clockOff), For: 2 * time.Hour, Severity: "warning",
			Summary: `The clock of an access point is off by {{ humanizeDuration $values.A.Value }}`,
			Description: "The dates in the job ads of an access point differ from the snapshots by more than 2 minutes. " +
				"They are corrected before jobs are linked with their ads, and answers name the access point (Inspect, Stats): " +
				"check its time synchronization.",
			Dashboard: "gpureports-pool", Panel: "Freshness",
		},
	}
}

// SourceUID is the data source that alert rules ask (they know no variables): the one in provisioning/datasources.
const SourceUID = "gpureports"

// alertFile is a provisioning file of alert rules.
type alertFile struct {
	path, group string
	source      string // the data source that the rules ask, by UID
	rules       []Rule
}

const alertFileHead = `# Alert rules of GPU Reports, made by "go generate ./pkg/internal/dev/dashboards" (alerts.go).
# They ask the data source with the uid "%s". Copy the file to change thresholds: each rule's
# condition stands in the part with refId "Condition", and what is not wanted can be left out.
`

// text is the file as Grafana reads it.
func (f alertFile) text() ([]byte, error) {
	var rules []object
	for _, r := range f.rules {
		rule, err := r.model(f.source)
		if err != nil {
			return nil, fmt.Errorf("alert rule %s: %w", r.UID, err)
		}
		rules = append(rules, rule)
	}
	file := struct {
		APIVersion int      `yaml:"apiVersion"`
		Groups     []object `yaml:"groups"`
	}{1, []object{{"orgId": 1, "name": f.group, "folder": "GPU Reports", "interval": "5m", "rules": rules}}}
	text := bytes.NewBufferString(fmt.Sprintf(alertFileHead, f.source))
	e := yaml.NewEncoder(text)
	e.SetIndent(2)
	if err := e.Encode(file); err != nil {
		return nil, fmt.Errorf("alert rules: %w", err)
	}
	return text.Bytes(), nil
}

// refIDs name a rule's queries.
const refIDs = "ABCDEFGH"

// expressions is the data source that computes in Grafana's server.
const expressions = "__expr__"

func (r Rule) model(source string) (object, error) {
	var data []object
	for i, q := range r.Queries {
		refID := refIDs[i : i+1]
		asked := refID
		if q.Reduce != "" {
			asked = refID + "series"
		}
		model, err := q.model(asked)
		if err != nil {
			return nil, err
		}
		data = append(data, object{
			"refId": asked, "datasourceUid": source, "model": model,
			"relativeTimeRange": object{"from": int(q.Since.Seconds()), "to": int(q.Until.Seconds())},
		})
		if q.Reduce != "" {
			data = append(data, expression(refID, object{"type": "reduce", "expression": asked, "reducer": q.Reduce,
				"settings": object{"mode": "dropNN"}}))
		}
	}
	data = append(data, expression("Condition", object{"type": "math", "expression": r.Condition}))
	panel := 0
	for _, d := range slices.Concat(All(), Fleet()) {
		if d.UID == r.Dashboard {
			panel = d.panelID(r.Panel)
		}
	}
	if panel == 0 {
		return nil, fmt.Errorf("there is no dashboard %s with a panel %q", r.Dashboard, r.Panel)
	}
	annotations := object{"summary": r.Summary, "description": r.Description, "__dashboardUid__": r.Dashboard,
		"__panelId__": fmt.Sprint(panel)}
	if r.Of != "" { // Grafana's own link to the panel leaves variables as they are
		annotations["link"] = fmt.Sprintf(`{{ reReplaceAll "/$" "" externalURL }}/d/%s?var-%s={{ urlquery $labels.%[2]s }}&`+
			`viewPanel=panel-%[3]d`, r.Dashboard, r.Of, panel)
	}
	return object{
		"uid": r.UID, "title": r.Title, "condition": "Condition", "data": data, "for": shortDuration(r.For),
		"noDataState": cmp.Or(r.NoData, "OK"), "execErrState": cmp.Or(r.Failed, "KeepLast"), "isPaused": r.Paused,
		"labels": object{"severity": r.Severity}, "annotations": annotations,
	}, nil
}

// model is the query as plain YAML, named.
func (q RuleQuery) model(refID string) (object, error) {
	text, err := json.Marshal(q.current(refID))
	if err != nil {
		return nil, err
	}
	var model object
	if err := json.Unmarshal(text, &model); err != nil {
		return nil, err
	}
	return model, nil
}

func expression(refID string, model object) object {
	model["refId"] = refID
	model["datasource"] = object{"type": expressions, "uid": expressions}
	return object{"refId": refID, "datasourceUid": expressions, "model": model}
}

// shortDuration is a duration as Grafana writes it: one number and its unit.
func shortDuration(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}
