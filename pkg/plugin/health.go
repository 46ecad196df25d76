package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// finding is what the health check says of one store.
type finding = check.Finding

const (
	severityOK      = check.OK
	severityNote    = check.Note
	severityWarning = check.Warning
	severityError   = check.Error
)

// stale is the age of the newest snapshot from which on the collector is taken to stand still.
const stale = 2 * time.Hour

// CheckHealth says a sentence a store: what was found, and what to do where something is wrong. It never returns an
// error. An error is what keeps queries from being answered; what makes answers poorer is a warning in the text.
func (d *Datasource) CheckHealth(ctx context.Context, _ *backend.CheckHealthRequest) (*backend.CheckHealthResult,
	error) {
	var findings []finding
	err := parallel.Recovered(func() error {
		findings = append(d.findings(ctx), d.newestFindings(ctx)...)
		return nil
	})
	if err != nil {
		logFailure(backend.Logger.FromContext(ctx), "health check failed", err)
		findings = []finding{{Store: "plugin", Severity: severityError, Text: err.Error()}}
	}
	return healthResult(findings), nil
}

func healthResult(findings []finding) *backend.CheckHealthResult {
	result := &backend.CheckHealthResult{Status: backend.HealthStatusOk}
	var errors, warnings, others []string // what is wrong comes first, the rest as it was looked at
	for _, f := range findings {
		switch text := sentence(f.Text); f.Severity {
		case severityError:
			errors = append(errors, text)
			result.Status = backend.HealthStatusError
		case severityWarning:
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

// findings returns those of each store.
func (d *Datasource) findings(ctx context.Context) []finding {
	if d.invalid != nil {
		return []finding{{Store: "settings", Severity: severityError, Text: "settings: " + d.invalid.Error()}}
	}
	if d.parsed.Mode == modeFleet {
		return d.fleetFindings(ctx)
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return []finding{{Store: "snapshots", Severity: severityError, Text: err.Error()}}
	}
	defer done()
	stores.retry()
	findings := d.snapshotFindings(ctx, stores)
	if _, err := stores.env(ctx); err != nil {
		findings = append(findings, finding{Store: "lists", Severity: severityError, Text: err.Error()})
	}
	findings = append(findings, d.jobsFinding(ctx, stores), cacheFinding(stores), directoriesFinding())
	if least := stores.Lack(); least > 0 {
		findings = append(findings, finding{Store: "memory", Severity: severityWarning,
			Details: map[string]any{"cacheMaxMB": least},
			Text: fmt.Sprintf("memory: what panels about runs need has no room in a cacheMaxMB of %d, so each of them finds "+
				"the runs anew. Set it to %d or more", d.parsed.CacheMaxMB, least)})
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

// snapshotFindings reports on the month files and the newest snapshot.
func (d *Datasource) snapshotFindings(ctx context.Context, s *opened) []finding {
	path, kind := s.place()
	state, err := s.Timeline.Source().Look(ctx)
	if err != nil {
		return []finding{{Store: "snapshots", Severity: severityError, Details: map[string]any{"path": path},
			Text: "snapshots: " + err.Error()}}
	}
	var findings []finding
	var rows int64
	parts, err := state.Parts(ctx)
	if err != nil {
		return []finding{{Store: "snapshots", Severity: severityError, Text: "snapshots: " + err.Error()}}
	}
	readable := 0
	for _, part := range parts {
		switch {
		case errors.Is(part.Err, bucket.ErrUnreachable): // the notices say so, once
			continue
		case part.Err != nil:
			findings = append(findings, finding{Store: part.Name, Severity: severityWarning, Text: part.Err.Error()})
			continue
		case part.Warning != "":
			findings = append(findings, finding{Store: part.Name, Severity: severityWarning, Text: part.Warning})
		}
		readable++
		rows += part.Rows
	}
	for _, notice := range state.Notices() {
		if notice.Warning && s.bucket != nil && !slices.ContainsFunc(findings,
			func(f finding) bool { return f.Text == notice.Text }) {
			findings = append(findings, finding{Store: "bucket", Severity: severityWarning, Text: notice.Text})
		}
	}
	first, newest, ok, err := s.Timeline.Range(ctx)
	switch {
	case err != nil:
		return append(findings, finding{Store: "snapshots", Severity: severityError, Text: err.Error()})
	case !ok:
		return append(findings, finding{Store: "snapshots", Severity: severityWarning,
			Text: fmt.Sprintf("snapshots: the %d %s(s) in %s hold no snapshot yet. Check that the collector runs",
				readable, kind, path)})
	}
	age := d.now().Sub(pool.Time(newest))
	found := finding{Store: "snapshots", Severity: severityOK, Details: map[string]any{
		"path": path, "files": len(parts), "rows": rows, "first": pool.Time(first), "newest": pool.Time(newest),
		"ageSeconds": age.Seconds(), "timezone": s.settings.zone.Key(),
	}}
	found.Text = fmt.Sprintf("snapshots: newest %s UTC (%s), %s rows in %d %s(s) since %s in %s",
		pool.Time(newest).Format("2006-01-02 15:04"), ageText(age), grouped(rows), readable, kind,
		pool.Time(first).Format("2006-01-02"), path)
	switch {
	case age > stale:
		found.Severity = severityWarning
		found.Text += ". The collector seems to stand still: check its cron job or service, and the setting timezone"
	case age < -time.Duration(check.ClockSkew)*time.Microsecond:
		found.Severity = severityWarning
		found.Text += ". A snapshot of the future: check the setting timezone"
	}
	return append(findings, found)
}

func (d *Datasource) jobsFinding(ctx context.Context, s *opened) finding {
	found := finding{Store: "jobs", Severity: severityOK, Details: map[string]any{"source": s.settings.Jobs}}
	if s.Ads == nil {
		found.Severity = severityNote
		found.Text = "jobs: none. Without job ads evictions are told from snapshots only and completions cannot be seen: " +
			"set jobs to elasticsearch or sqlite to see them"
		return found
	}
	health, err := s.Ads.Health(ctx)
	if err != nil {
		found.Severity, found.Text = severityError, "jobs: "+err.Error()
		return found
	}
	found.Details["store"], found.Details["ads"] = health.Store, health.Ads
	found.Text = fmt.Sprintf("jobs: %s, %s ads", health.Store, grouped(health.Ads))
	if !health.Newest.IsZero() {
		found.Details["newest"] = health.Newest
		found.Text += fmt.Sprintf(", newest %s UTC (%s)", health.Newest.UTC().Format("2006-01-02 15:04"),
			ageText(d.now().Sub(health.Newest)))
	}
	if health.Ads == 0 {
		found.Severity = severityWarning
		found.Text += ". Check that job ads are collected"
	}
	for _, notice := range health.Notices {
		found.Severity = severityWarning
		found.Text += ". " + strings.TrimRight(notice, ".")
	}
	return found
}

func cacheFinding(s *opened) finding {
	used, budget := s.Timeline.Memory()
	found := finding{Store: "cache", Severity: severityOK,
		Details: map[string]any{"memoryBytes": used, "memoryMB": budget >> 20}}
	dir := s.settings.CacheDir
	if dir == "" {
		found.Severity = severityNote
		found.Text = fmt.Sprintf("cache: in memory only (%d MB), so after a restart the files are read anew. Set cacheDir "+
			"to keep it", budget>>20)
		return found
	}
	found.Details["path"], found.Details["diskMB"] = resolve(dir), s.settings.CacheDiskMB
	found.Text = fmt.Sprintf("cache: %d MB in memory, %d MB in %s", budget>>20, s.settings.CacheDiskMB, resolve(dir))
	if err := s.Timeline.CacheError(); err != nil {
		found.Severity = severityWarning
		found.Text = fmt.Sprintf("cache: %s cannot be used: %v. Answers are right, but after a restart the files are read "+
			"anew: give the user that runs Grafana the right to write there", resolve(dir), err)
	}
	return found
}

func directoriesFinding() finding {
	dirs, restricted := allowedDirs()
	found := finding{Store: "directories", Severity: severityOK, Details: map[string]any{"allowed": dirs}}
	if restricted {
		found.Text = "directories: this server allows " + strings.Join(dirs, ", ")
	} else {
		found.Severity = severityNote
		found.Text = "directories: this server allows any (allowed_dirs is not set)"
	}
	return found
}

// bucketFinding reports what the bucket was asked.
func bucketFinding(s *opened) finding {
	counts := s.bucket.Counts()
	return finding{Store: "buckets", Severity: severityOK, Details: map[string]any{"allowed": allowedBuckets(),
		"requests": counts.Requests, "received": counts.Received},
		Text: fmt.Sprintf("bucket: %s requests, %s MB received since the data source was opened; this server allows %s",
			grouped(counts.Requests), grouped(counts.Received>>20), orNone(strings.Join(allowedBuckets(), ", ")))}
}

// segmentsFinding reports on the bucket that finished days are shared through.
func segmentsFinding(shared *keep.Shared) finding {
	counts := shared.Counts()
	found := finding{Store: "segments", Severity: severityOK, Details: map[string]any{"requests": counts.Requests,
		"received": counts.Received, "sent": counts.Sent},
		Text: fmt.Sprintf("finished days are shared through %s: %s requests since the data source was opened",
			shared.Name(), grouped(counts.Requests))}
	reading, writing := shared.Err()
	switch {
	case reading != nil:
		found.Severity = severityWarning
		found.Text = fmt.Sprintf("finished days are made of the snapshots, not taken from segmentBucket: %v", reading)
	case writing != nil:
		found.Severity = severityWarning
		found.Text = fmt.Sprintf("what is made of finished days is not shared through segmentBucket: %v", writing)
	}
	return found
}

// sentence ends a text with a full stop and begins it with a capital, or with a file's name as it is.
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
		return length(-age.Microseconds()) + " ahead"
	}
	return length(age.Microseconds()) + " old"
}

// length is a length of time in two units at most: 3 h 12 min.
func length(d pool.Micros) string {
	switch {
	case d >= 2*pool.Day:
		return fmt.Sprintf("%d d %d h", d/pool.Day, d%pool.Day/pool.Hour)
	case d >= pool.Hour:
		return fmt.Sprintf("%d h %d min", d/pool.Hour, d%pool.Hour/pool.Minute)
	case d >= pool.Minute:
		return fmt.Sprintf("%d min", d/pool.Minute)
	}
	return fmt.Sprintf("%d s", d/pool.Second)
}

// grouped writes a number's digits in groups of three.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

var _ backend.CheckHealthHandler = (*Datasource)(nil)
