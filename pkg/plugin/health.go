package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// finding is the health check's result for one store.
type finding = check.Finding

// CheckHealth returns one sentence per store: the findings, and a remedy if something is wrong. It never returns an
// error. A finding is an error if it keeps queries from being answered; if it only makes answers worse, it is a warning
// in the text. Viewers, and requests without a user, see only whether the data source works, because the findings name
// paths, servers, and what the operator allows.
func (d *Datasource) CheckHealth(ctx context.Context, req *backend.CheckHealthRequest) (*backend.CheckHealthResult,
	error) {
	findings, err := lookUp(ctx, func(ctx context.Context) (check.Findings, error) {
		return d.findings(ctx, true), nil
	})
	if err != nil {
		logFailure(backend.Logger.FromContext(ctx), "health check failed", err)
		findings.Add("plugin", check.Error, nil, "%v", err)
	}
	result := healthResult(findings)
	if !trusted(req.PluginContext.User) {
		result.JSONDetails = nil
		if result.Message = "The data source works."; result.Status != backend.HealthStatusOk {
			result.Message = "The data source does not work: an editor or administrator can see why."
		}
	}
	return result, nil
}

func healthResult(findings check.Findings) *backend.CheckHealthResult {
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
	result.JSONDetails, _ = json.Marshal(map[string]any{"findings": findings})
	return result
}

// checkup is a health check in progress.
type checkup struct {
	check.Findings
	d *Datasource
	s *opened
}

// findings returns the findings about each store, and about the newest data if that is wanted.
func (d *Datasource) findings(ctx context.Context, ofNewest bool) check.Findings {
	c := checkup{d: d}
	c.nearKeys()
	switch {
	case d.invalid != nil:
		c.Add("settings", check.Error, nil, "settings: %v", d.invalid)
		c.directories()
		c.Add("buckets", check.Note, nil, "buckets: this server allows %s", allowedBucketsText())
		return c.Findings
	case d.parsed.Mode == modeFleet:
		c.facts(ctx)
		return c.Findings
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		c.Add("snapshots", check.Error, nil, "%v", err)
		return c.Findings
	}
	defer done()
	c.s = stores
	stores.retry()
	c.stores(ctx)
	c.keys()
	if ofNewest {
		c.newest(ctx)
	}
	return c.Findings
}

// nearKeys names keys of jsonData that are nearly settings: they have no effect.
func (c *checkup) nearKeys() {
	near := query.NearKeys(c.d.settings.JSONData, reflect.TypeFor[Settings]())
	for _, key := range slices.Sorted(maps.Keys(near)) {
		c.Add("settings", check.Warning, check.Details{"key": key, "setting": near[key]}, "settings: jsonData has the "+
			"unknown key %q, which has no effect: the setting is called %q", key, near[key])
	}
}

// stores checks the stores of one pool.
func (c *checkup) stores(ctx context.Context) {
	c.snapshots(ctx)
	if _, err := c.s.env(ctx); err != nil {
		c.Add("lists", check.Error, nil, "%v", err)
	}
	c.jobs(ctx)
	c.cache()
	c.directories()
	if least := c.s.Lack(); least > 0 {
		c.Add("memory", check.Warning, check.Details{"cacheMaxMB": least}, "memory: a cacheMaxMB of %d is too small for "+
			"the runs, so every panel about runs computes them again. Set it to at least %d", c.s.settings.CacheMaxMB, least)
	}
	if c.s.bucket != nil {
		requests, received := c.s.bucket.Counts.Requests.Load(), c.s.bucket.Counts.Received.Load()
		c.Add("buckets", check.OK, check.Details{"allowed": listed(allowedBuckets), "requests": requests,
			"received": received}, "bucket: %s requests, %s MB received since the data source was opened; this server "+
			"allows %s", frames.Thousands(int(requests)), frames.Thousands(int(received>>20)), allowedBucketsText())
	}
	if publisher := c.d.publisher; publisher != nil {
		c.Findings = append(c.Findings, publisher.finding(c.d.parsed.PublishTo))
	}
	if shared := c.s.Timeline.Shared; shared != nil {
		c.segments(shared)
	}
}

func allowedBucketsText() string { return cmp.Or(strings.Join(listed(allowedBuckets), ", "), "none") }

// keys tells of blanks around keys, and explains findings about a bucket if no keys reached the plugin.
func (c *checkup) keys() {
	for _, name := range []string{secretAccessKey, secretSecretKey} {
		if key := c.d.settings.DecryptedSecureJSONData[name]; key != strings.TrimSpace(key) {
			c.Add("bucket keys", check.Note, nil, "%s has blanks or a newline around it, as secrets in files often do: "+
				"they are not part of the key, and are ignored. Remove them", name)
		}
	}
	for _, b := range c.d.parsed.buckets() {
		options := c.d.parsed.bucketOptions(b.url, c.d.settings.DecryptedSecureJSONData)
		if options.OwnKeys() || !slices.ContainsFunc(c.Findings, func(f finding) bool {
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
			c.Add("keys", check.Error, nil, "keys: the data source has no bucket keys, and none of the server's keys reached "+
				"the plugin, because Grafana 12.4 and newer pass no environment to plugins. Set the keys of the data source, or "+
				"have the operator set forward_host_env_vars = %s in the section [plugins] of grafana.ini", ID)
			return
		}
	}
}

// snapshots checks the month files and the newest snapshot.
func (c *checkup) snapshots(ctx context.Context) {
	s := c.s
	path, kind := resolve(s.dir.Path()), "month file"
	if s.bucket != nil {
		path, kind = s.bucket.Name(), "object"
	}
	// See which files or objects can be read.
	state, err := s.Timeline.Source.Look(ctx)
	if err != nil {
		c.Add("snapshots", check.Error, check.Details{"path": path}, "snapshots: %v", err)
		return
	}
	parts, err := state.Parts(ctx)
	if err != nil {
		c.Add("snapshots", check.Error, nil, "snapshots: %v", err)
		return
	}
	readable, rows := c.parts(parts)
	for _, notice := range state.Notices() {
		if notice.Warning && s.bucket != nil && !slices.ContainsFunc(c.Findings,
			func(f finding) bool { return f.Text == notice.Text }) {
			c.Add("bucket", check.Warning, nil, "%s", notice.Text)
		}
	}
	first, newest, ok, err := s.Timeline.Range(ctx)
	switch {
	case err != nil:
		c.Add("snapshots", check.Error, nil, "%v", err)
		return
	case !ok:
		c.Add("snapshots", check.Warning, nil, "snapshots: the %d %s(s) in %s hold no snapshot yet. Check that the "+
			"collector runs", readable, kind, path)
		return
	}
	// Say how old the newest snapshot is, and why if it is too old.
	age := c.d.now().Sub(pool.Time(newest))
	found := finding{Store: "snapshots", Severity: check.OK, Details: check.Details{
		"path": path, "files": len(parts), "rows": rows, "first": pool.Time(first), "newest": pool.Time(newest),
		"ageSeconds": age.Seconds(), "timezone": s.settings.zone.Key(),
	}}
	found.Text = fmt.Sprintf("snapshots: newest %s UTC (%s), %s rows in %d %s(s) since %s in %s",
		pool.Time(newest).Format("2006-01-02 15:04"), ageText(age), frames.Thousands(int(rows)), readable, kind,
		pool.Time(first).Format("2006-01-02"), path)
	switch {
	case age < -time.Duration(check.ClockSkew)*time.Microsecond:
		found.Add(check.Warning, ". That is in the future: check the setting timezone")
	case age > 2*time.Hour: // the collector may have stopped
		found.Add(check.Warning, "%s", whyStale(ctx, s, newest))
	}
	c.Findings = append(c.Findings, found)
}

// parts reports month files that cannot be read, and returns how many can, with their rows.
func (c *checkup) parts(parts []snapshots.Part) (readable int, rows int64) {
	for _, part := range parts {
		switch {
		case errors.Is(part.Err, bucket.ErrUnreachable): // in the notices, once
			continue
		case part.Err != nil:
			c.Add(part.Name, check.Warning, nil, "%v", part.Err)
			continue
		case part.Warning != "":
			c.Add(part.Name, check.Warning, nil, "%s", part.Warning)
		}
		readable++
		rows += part.Rows
	}
	return readable, rows
}

// whyStale explains that the newest snapshot is old: rows of its day may have timestamps that cannot be read.
func whyStale(ctx context.Context, s *opened, newest pool.Micros) string {
	if view, err := s.Timeline.Load(ctx, newest, newest); err == nil && len(view.Days) > 0 {
		if odd := view.Days[view.DayAt(len(view.Times)-1)].Oddities; odd.Unreadable > 0 {
			return fmt.Sprintf(". Rows of that day have no readable timestamp, such as %q: have the collector write YYYY-MM-DD "+
				"HH:MM:SS, with or without an offset from UTC", odd.Sample)
		}
	}
	return ". The collector appears to have stopped: check its cron job or service, and the setting timezone"
}

func (c *checkup) jobs(ctx context.Context) {
	details := check.Details{"source": c.s.settings.Jobs}
	if c.s.Ads == nil {
		c.Add("jobs", check.Note, details, "jobs: none. Without job ads, evictions are inferred from snapshots only, and "+
			"completions cannot be seen. To see them, set jobs to elasticsearch or sqlite")
		return
	}
	health, err := c.s.Ads.Health(ctx)
	if err != nil {
		c.Add("jobs", check.Error, details, "jobs: %v", err)
		return
	}
	details["store"], details["ads"] = health.Store, health.Ads
	found := finding{Store: "jobs", Severity: check.OK, Details: details,
		Text: fmt.Sprintf("jobs: %s, %s ads", health.Store, frames.Thousands(int(health.Ads)))}
	if !health.Newest.IsZero() {
		details["newest"] = health.Newest
		found.Text += fmt.Sprintf(", newest %s UTC (%s)", health.Newest.UTC().Format("2006-01-02 15:04"),
			ageText(c.d.now().Sub(health.Newest)))
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
	c.Findings = append(c.Findings, found)
}

func (c *checkup) cache() {
	used, budget := c.s.Timeline.Memory()
	details := check.Details{"memoryBytes": used, "memoryMB": budget >> 20}
	if c.s.settings.CacheDir == "" {
		c.Add("cache", check.Note, details, "cache: in memory only (%d MB), so all files are read again after a restart. "+
			"Set cacheDir to keep it", budget>>20)
		return
	}
	dir, diskMB := resolve(c.s.settings.CacheDir), c.s.settings.CacheDiskMB
	details["path"], details["diskMB"] = dir, diskMB
	if err := c.s.Timeline.CacheError(); err != nil {
		c.Add("cache", check.Warning, details, "cache: %s cannot be used: %v. Answers are right, but all files are read "+
			"again after a restart: give the user that runs Grafana write access", dir, err)
		return
	}
	c.Add("cache", check.OK, details, "cache: %d MB in memory, %d MB in %s", budget>>20, diskMB, dir)
}

func (c *checkup) directories() {
	dirs := listed(allowedDirs)
	details := check.Details{"allowed": dirs}
	if len(dirs) > 0 {
		c.Add("directories", check.OK, details, "directories: this server allows %s", strings.Join(dirs, ", "))
	} else {
		c.Add("directories", check.Note, details, "directories: this server allows any (allowed_dirs is not set)")
	}
}

// segments checks the bucket through which finished days are shared.
func (c *checkup) segments(shared *segcache.Shared) {
	counts := shared.Bucket.Counts
	requests := counts.Requests.Load()
	details := check.Details{"requests": requests, "received": counts.Received.Load(), "sent": counts.Sent.Load()}
	switch reading, writing := shared.Err(); {
	case reading != nil:
		c.Add("segments", check.Warning, details, "finished days are built from the snapshots, not taken from "+
			"segmentBucket: %v", reading)
	case writing != nil:
		c.Add("segments", check.Warning, details, "finished days are not shared through segmentBucket: %v", writing)
	default:
		c.Add("segments", check.OK, details, "finished days are shared through %s: %s requests since the data source was "+
			"opened", shared.Bucket.Name(), frames.Thousands(int(requests)))
	}
}

// newest checks the newest data: whether the time zone can be right, whether slices fit the cadence, and how far the
// access points' clocks are off. If there are no data, or a job source does not answer, other findings say so.
func (c *checkup) newest(ctx context.Context) {
	s := c.s
	_, newest, ok, err := s.Timeline.Range(ctx)
	if err != nil || !ok {
		return
	}
	c.NewestZone(ctx, s.Timeline, s.settings.zone)
	view, err := s.Timeline.Load(ctx, newest-7*pool.Day, newest)
	if err != nil {
		return
	}
	c.Cadence(view.Cadence(pool.DayOf(newest)), s.settings.SliceMinutes)
	env, err := s.env(ctx)
	if err != nil || s.Ads == nil {
		return
	}
	if _, err := s.Ads.Health(ctx); err != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, 15*time.Second) // a health check is waited for
	defer cancel()
	c.Clocks(limited, s.Stores, env.Lists, pool.Window{From: newest - pool.Day, To: newest})
}

// sentence ends a text with a period and capitalizes its first letter, unless it begins with a file name.
func sentence(text string) string {
	ended := strings.TrimRight(text, ".") + "."
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "_./") {
		return ended
	}
	return strings.ToUpper(ended[:1]) + ended[1:]
}

func ageText(age time.Duration) string {
	if age < 0 {
		return check.ShortLength(-age.Microseconds()) + " ahead"
	}
	return check.ShortLength(age.Microseconds()) + " old"
}

var _ backend.CheckHealthHandler = (*Datasource)(nil)
