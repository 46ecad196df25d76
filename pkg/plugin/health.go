package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// finding is the health check's result for one store.
type finding = check.Finding

// stale is the age of the newest snapshot at which the collector is considered stopped.
const stale = 2 * time.Hour

// CheckHealth returns one sentence per store: the findings, and a remedy if something is wrong. It never returns an
// error. A finding is an error if it keeps queries from being answered; if it only makes answers worse, it is a warning
// in the text. Viewers see only whether the data source works, because the findings name paths, servers, and what the
// operator allows.
func (d *Datasource) CheckHealth(ctx context.Context, req *backend.CheckHealthRequest) (*backend.CheckHealthResult,
	error) {
	findings, err := lookUp(ctx, func(ctx context.Context) ([]finding, error) {
		return d.findings(ctx, true), nil
	})
	if err != nil {
		logFailure(backend.Logger.FromContext(ctx), "health check failed", err)
		findings = []finding{{Store: "plugin", Severity: check.Error, Text: err.Error()}}
	}
	result := healthResult(findings)
	if user := req.PluginContext.User; user != nil && !trusted(user) {
		result.JSONDetails = nil
		if result.Message = "The data source works."; result.Status != backend.HealthStatusOk {
			result.Message = "The data source does not work: an editor or administrator can see why."
		}
	}
	return result, nil
}

func healthResult(findings []finding) *backend.CheckHealthResult {
	result := &backend.CheckHealthResult{Status: backend.HealthStatusOk}
	var errors, warnings, others []string // errors come first, the rest in the order of the checks
	for _, f := range findings {
		switch text := sentence(f.Text); f.Severity {
		case check.Error:
			errors = append(errors, text)
			result.Status = backend.HealthStatusError
		case check.Warning:
			warnings = append(warnings, "Warning: "+text)
		default:
			others = append(others, text)
		}
	}
	result.Message = strings.Join(slices.Concat(errors, warnings, others), " ")
	details, err := json.Marshal(map[string]any{"findings": findings})
	if err == nil {
		result.JSONDetails = details
	}
	return result
}

// findings returns the findings about each store, and about the newest data if that is wanted.
func (d *Datasource) findings(ctx context.Context, ofNewest bool) []finding {
	if d.invalid != nil {
		return []finding{{Store: "settings", Severity: check.Error, Text: "settings: " + d.invalid.Error()},
			directoriesFinding(), {Store: "buckets", Severity: check.Note,
				Text: "buckets: this server allows " + orNone(strings.Join(allowedBuckets(), ", "))}}
	}
	if d.parsed.Mode == modeFleet {
		return d.fleetFindings(ctx)
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return []finding{{Store: "snapshots", Severity: check.Error, Text: err.Error()}}
	}
	defer done()
	stores.retry()
	findings := d.storeFindings(ctx, stores)
	findings = append(findings, d.keysFindings(findings)...)
	if ofNewest {
		findings = append(findings, newestFindings(ctx, stores)...)
	}
	return findings
}

// storeFindings returns the findings about the stores of one pool.
func (d *Datasource) storeFindings(ctx context.Context, stores *opened) []finding {
	findings := d.snapshotFindings(ctx, stores)
	if _, err := stores.env(ctx); err != nil {
		findings = append(findings, finding{Store: "lists", Severity: check.Error, Text: err.Error()})
	}
	findings = append(findings, d.jobsFinding(ctx, stores), cacheFinding(stores), directoriesFinding())
	if least := stores.Lack(); least > 0 {
		findings = append(findings, finding{Store: "memory", Severity: check.Warning,
			Details: map[string]any{"cacheMaxMB": least},
			Text: fmt.Sprintf("memory: a cacheMaxMB of %d is too small for the runs, so every panel about runs computes them "+
				"again. Set it to at least %d", d.parsed.CacheMaxMB, least)})
	}
	if stores.bucket != nil {
		findings = append(findings, bucketFinding(stores))
	}
	if d.publisher != nil {
		findings = append(findings, d.publisher.finding(d.parsed.PublishTo))
	}
	if shared := stores.Timeline.Shared(); shared != nil {
		findings = append(findings, segmentsFinding(shared))
	}
	return findings
}

// keysFindings explains findings about a bucket if no keys reached the plugin.
func (d *Datasource) keysFindings(about []finding) []finding {
	for _, b := range d.parsed.buckets() {
		options := d.parsed.bucketOptions(b.url, d.settings.DecryptedSecureJSONData)
		if options.OwnKeys() || !slices.ContainsFunc(about, func(f finding) bool {
			return (f.Severity == check.Error || f.Severity == check.Warning) && strings.Contains(f.Text, options.Name())
		}) {
			continue
		}
		b, err := bucket.Open(options)
		if err != nil {
			continue // the bucket's own finding says so
		}
		defer b.Close()
		if !b.HasKeys() {
			return []finding{{Store: "keys", Severity: check.Error, Text: "keys: the data source has no bucket keys, and " +
				"none of the server's keys reached the plugin, because Grafana 12.4 and newer pass no environment to plugins. " +
				"Set the keys of the data source, or have the operator set forward_host_env_vars " +
				"= " + ID + " in the section [plugins] of " +
				"grafana.ini"}}
		}
	}
	return nil
}

// snapshotFindings reports on the month files and the newest snapshot.
func (d *Datasource) snapshotFindings(ctx context.Context, s *opened) []finding {
	path, kind := s.place()
	state, err := s.Timeline.Source().Look(ctx)
	if err != nil {
		return []finding{{Store: "snapshots", Severity: check.Error, Details: map[string]any{"path": path},
			Text: "snapshots: " + err.Error()}}
	}
	parts, err := state.Parts(ctx)
	if err != nil {
		return []finding{{Store: "snapshots", Severity: check.Error, Text: "snapshots: " + err.Error()}}
	}
	findings, readable, rows := partFindings(parts)
	for _, notice := range state.Notices() {
		if notice.Warning && s.bucket != nil && !slices.ContainsFunc(findings,
			func(f finding) bool { return f.Text == notice.Text }) {
			findings = append(findings, finding{Store: "bucket", Severity: check.Warning, Text: notice.Text})
		}
	}
	first, newest, ok, err := s.Timeline.Range(ctx)
	switch {
	case err != nil:
		return append(findings, finding{Store: "snapshots", Severity: check.Error, Text: err.Error()})
	case !ok:
		return append(findings, finding{Store: "snapshots", Severity: check.Warning,
			Text: fmt.Sprintf("snapshots: the %d %s(s) in %s hold no snapshot yet. Check that the collector runs",
				readable, kind, path)})
	}
	age := d.now().Sub(pool.Time(newest))
	found := finding{Store: "snapshots", Severity: check.OK, Details: map[string]any{
		"path": path, "files": len(parts), "rows": rows, "first": pool.Time(first), "newest": pool.Time(newest),
		"ageSeconds": age.Seconds(), "timezone": s.settings.zone.Key(),
	}}
	found.Text = fmt.Sprintf("snapshots: newest %s UTC (%s), %s rows in %d %s(s) since %s in %s",
		pool.Time(newest).Format("2006-01-02 15:04"), ageText(age), frames.Thousands(int(rows)), readable, kind,
		pool.Time(first).Format("2006-01-02"), path)
	odd := ""
	if age > stale {
		odd = unreadable(ctx, s, newest)
	}
	switch {
	case odd != "":
		found.Add(check.Warning, ". Rows of that day have no readable timestamp, such as %s: have the collector write "+
			"YYYY-MM-DD HH:MM:SS, with or without an offset from UTC", odd)
	case age > stale:
		found.Add(check.Warning, ". The collector appears to have stopped: check its cron job or service, and the setting "+
			"timezone")
	case age < -time.Duration(check.ClockSkew)*time.Microsecond:
		found.Add(check.Warning, ". That is in the future: check the setting timezone")
	}
	return append(findings, found)
}

// partFindings reports on month files that cannot be read, and returns how many can, with their rows.
func partFindings(parts []snapshots.Part) (findings []finding, readable int, rows int64) {
	for _, part := range parts {
		switch {
		case errors.Is(part.Err, bucket.ErrUnreachable): // in the notices, once
			continue
		case part.Err != nil:
			findings = append(findings, finding{Store: part.Name, Severity: check.Warning, Text: part.Err.Error()})
			continue
		case part.Warning != "":
			findings = append(findings, finding{Store: part.Name, Severity: check.Warning, Text: part.Warning})
		}
		readable++
		rows += part.Rows
	}
	return findings, readable, rows
}

// unreadable returns a timestamp of the newest day that cannot be read, in quotes; "" if there is none.
func unreadable(ctx context.Context, s *opened, newest pool.Micros) string {
	view, err := s.Timeline.Load(ctx, newest, newest)
	if err != nil || len(view.Days) == 0 {
		return ""
	}
	odd := view.Days[view.DayAt(len(view.Times)-1)].Oddities()
	if odd.Unreadable == 0 {
		return ""
	}
	return strconv.Quote(odd.Sample)
}

func (d *Datasource) jobsFinding(ctx context.Context, s *opened) finding {
	found := finding{Store: "jobs", Severity: check.OK, Details: map[string]any{"source": s.settings.Jobs}}
	if s.Ads == nil {
		found.Add(check.Note, "jobs: none. Without job ads, evictions are inferred from snapshots only, and completions "+
			"cannot be seen. To see them, set jobs to elasticsearch or sqlite")
		return found
	}
	health, err := s.Ads.Health(ctx)
	if err != nil {
		found.Severity, found.Text = check.Error, "jobs: "+err.Error()
		return found
	}
	found.Details["store"], found.Details["ads"] = health.Store, health.Ads
	found.Text = fmt.Sprintf("jobs: %s, %s ads", health.Store, frames.Thousands(int(health.Ads)))
	if !health.Newest.IsZero() {
		found.Details["newest"] = health.Newest
		found.Text += fmt.Sprintf(", newest %s UTC (%s)", health.Newest.UTC().Format("2006-01-02 15:04"),
			ageText(d.now().Sub(health.Newest)))
	}
	switch {
	case health.Ads == 0:
		found.Add(check.Warning, ". Check that job ads are collected")
	case !health.Saves:
		found.Add(check.Note, ". No epoch ad has JobLastCheckpointTime: it is not known what evicted runs have saved. "+
			"HTCondor writes it for jobs with checkpoint_exit_code where JOB_EPOCH_HISTORY is set: %s", jobs.WriteEpochs)
	}
	for _, notice := range health.Notices {
		found.Add(check.Warning, ". %s", strings.TrimRight(notice, "."))
	}
	return found
}

func cacheFinding(s *opened) finding {
	used, budget := s.Timeline.Memory()
	found := finding{Store: "cache", Severity: check.OK,
		Details: map[string]any{"memoryBytes": used, "memoryMB": budget >> 20}}
	dir := s.settings.CacheDir
	if dir == "" {
		found.Add(check.Note, "cache: in memory only (%d MB), so all files are read again after a restart. Set cacheDir "+
			"to keep it", budget>>20)
		return found
	}
	found.Details["path"], found.Details["diskMB"] = resolve(dir), s.settings.CacheDiskMB
	found.Text = fmt.Sprintf("cache: %d MB in memory, %d MB in %s", budget>>20, s.settings.CacheDiskMB, resolve(dir))
	if err := s.Timeline.CacheError(); err != nil {
		found.Severity = check.Warning
		found.Text = fmt.Sprintf("cache: %s cannot be used: %v. Answers are right, but all files are read again after a "+
			"restart: give the user that runs Grafana write access", resolve(dir), err)
	}
	return found
}

func directoriesFinding() finding {
	dirs := allowedDirs()
	found := finding{Store: "directories", Severity: check.OK, Details: map[string]any{"allowed": dirs}}
	if len(dirs) > 0 {
		found.Text = "directories: this server allows " + strings.Join(dirs, ", ")
	} else {
		found.Add(check.Note, "directories: this server allows any (allowed_dirs is not set)")
	}
	return found
}

// bucketFinding reports the counts of requests to the bucket.
func bucketFinding(s *opened) finding {
	counts := s.bucket.Counts()
	return finding{Store: "buckets", Severity: check.OK, Details: map[string]any{"allowed": allowedBuckets(),
		"requests": counts.Requests, "received": counts.Received},
		Text: fmt.Sprintf("bucket: %s requests, %s MB received since the data source was opened; this server allows %s",
			frames.Thousands(int(counts.Requests)), frames.Thousands(int(counts.Received>>20)),
			orNone(strings.Join(allowedBuckets(), ", ")))}
}

// segmentsFinding reports on the bucket through which finished days are shared.
func segmentsFinding(shared *segcache.Shared) finding {
	counts := shared.Counts()
	found := finding{Store: "segments", Severity: check.OK, Details: map[string]any{"requests": counts.Requests,
		"received": counts.Received, "sent": counts.Sent},
		Text: fmt.Sprintf("finished days are shared through %s: %s requests since the data source was opened",
			shared.Name(), frames.Thousands(int(counts.Requests)))}
	reading, writing := shared.Err()
	switch {
	case reading != nil:
		found.Severity = check.Warning
		found.Text = fmt.Sprintf("finished days are built from the snapshots, not taken from segmentBucket: %v", reading)
	case writing != nil:
		found.Severity = check.Warning
		found.Text = fmt.Sprintf("finished days are not shared through segmentBucket: %v", writing)
	}
	return found
}

// sentence ends a text with a period and capitalizes its first letter, unless it begins with a file name.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "_./") {
		return strings.TrimRight(text, ".") + "."
	}
	return strings.ToUpper(text[:1]) + strings.TrimRight(text[1:], ".") + "."
}

func ageText(age time.Duration) string {
	if age < 0 {
		return check.WholeLength(-age.Microseconds()) + " ahead"
	}
	return check.WholeLength(age.Microseconds()) + " old"
}

var _ backend.CheckHealthHandler = (*Datasource)(nil)

// clocksWithin is how long a health check may ask for job ads.
const clocksWithin = 15 * time.Second

// newestFindings checks the newest data: whether the time zone can be right, whether slices fit the cadence, and how
// far the access points' clocks are off. If there are no data, or a job source does not answer, other findings say so.
func newestFindings(ctx context.Context, s *opened) []finding {
	_, newest, ok, err := s.Timeline.Range(ctx)
	if err != nil || !ok {
		return nil
	}
	week := pool.Window{From: newest - 7*pool.Day, To: newest}
	view, err := s.Timeline.Load(ctx, week.From, week.To)
	if err != nil {
		return []finding{{Store: "timezone", Severity: check.Warning, Text: err.Error()}}
	}
	findings := append([]finding{check.NewestZoneFinding(ctx, s.Timeline, s.settings.zone, view, week)},
		check.CadenceFindings(view.Cadence(pool.DayOf(newest)), s.settings.SliceMinutes)...)
	env, err := s.env(ctx)
	if err != nil || s.Ads == nil {
		return findings
	}
	if _, err := s.Ads.Health(ctx); err != nil {
		return findings
	}
	limited, cancel := context.WithTimeout(ctx, clocksWithin)
	defer cancel()
	day := pool.Window{From: newest - pool.Day, To: newest}
	return append(findings, check.Clocks(limited, s.Stores, env.Lists, day)...)
}
