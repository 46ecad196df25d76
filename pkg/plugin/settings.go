package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Words of the settings jobs, mode, timezoneData and userNames.
const (
	jobsNone             = "none"
	jobsSQLite           = "sqlite"
	jobsElasticsearch    = "elasticsearch"
	modePool             = "pool"
	modeFleet            = "fleet"
	timezoneDataNewest   = "newest"     // the machine's own database, if it is newer than the embedded one
	timezoneDataEmbedded = "embedded"   // the embedded one
	userNamesFull        = "full"       // everyone sees names
	userNamesPseudonyms  = "pseudonyms" // editors and administrators do, others see "User 482913377"
)

// Settings are a data source's settings: its jsonData, with defaults. Files are plain names inside SnapshotDir or
// SnapshotBucket.
type Settings struct {
	snapshots.ListFiles
	Mode            string          `json:"mode"`       // pool, or fleet: answers from the facts of many pools
	FactsIndex      string          `json:"factsIndex"` // alias of the facts in Elasticsearch
	PublishTo       PublishTo       `json:"publishTo"`
	SnapshotDir     string          `json:"snapshotDir"`    // absolute
	SnapshotBucket  string          `json:"snapshotBucket"` // s3://bucket/prefix, instead of SnapshotDir
	SegmentBucket   string          `json:"segmentBucket"`  // s3://bucket/prefix, for data derived from finished days
	BucketEndpoint  string          `json:"bucketEndpoint"` // URL of the S3 server; "" is Amazon's
	BucketRegion    string          `json:"bucketRegion"`
	BucketPathStyle bool            `json:"bucketPathStyle"` // the bucket is in the path, not in the host's name
	BucketCA        string          `json:"bucketCA"`        // certificates in PEM, in addition to the system's
	Timezone        json.RawMessage `json:"timezone"`        // as localtime.Parse reads it
	TimezoneData    string          `json:"timezoneData"`    // newest, or embedded: not the machine's own
	SliceMinutes    int             `json:"sliceMinutes"`
	CacheDir        string          `json:"cacheDir"`    // absolute; "" keeps the cache in memory only
	CacheMaxMB      int             `json:"cacheMaxMB"`  // in memory
	CacheDiskMB     int             `json:"cacheDiskMB"` // on disk
	Jobs            string          `json:"jobs"`        // none, sqlite or elasticsearch
	JobsPath        string          `json:"jobsPath"`
	JobsIndex       string          `json:"jobsIndex"`
	JobsEpochIndex  string          `json:"jobsEpochIndex"`
	FiscalYearStart int             `json:"fiscalYearStart"` // month with which years and quarters begin, 1 to 12
	UserNames       string          `json:"userNames"`       // full or pseudonyms, for viewers
	Links           bool            `json:"links"`           // from names in tables to the shipped dashboards

	zone         *localtime.Zone
	organization string // Grafana's; "" on the command line
}

// PublishTo says that the plugin itself publishes the pool's facts, each hour: under which name, and where.
type PublishTo struct {
	Pool  string `json:"pool"`  // its name among the pools; "" does not publish
	Index string `json:"index"` // alias of the facts; "" is factsIndex
}

// Zone is the collector's time zone.
func (s *Settings) Zone() *localtime.Zone { return s.zone }

// Pseudonymous reports whether viewers see pseudonyms instead of names.
func (s *Settings) Pseudonymous() bool { return s.UserNames == userNamesPseudonyms }

// ParseSettings reads jsonData and checks all that can be checked without looking at files. Errors are pool.BadQuery.
func ParseSettings(jsonData json.RawMessage) (Settings, error) {
	s := Settings{SliceMinutes: 15, CacheMaxMB: 512, CacheDiskMB: 2048, FiscalYearStart: 1, Links: true}
	if len(bytes.TrimSpace(jsonData)) > 0 {
		jsonData, err := asDeclared(jsonData, reflect.TypeFor[Settings]())
		if err == nil {
			err = json.Unmarshal(jsonData, &s)
		}
		if err != nil {
			return Settings{}, pool.BadQuery("the settings cannot be read: %w", err)
		}
	}
	// Fill in the texts that are not given.
	type text struct {
		value *string
		empty string
	}
	texts := []text{{&s.JobsPath, "jobs.db"}, {&s.Jobs, jobsNone}, {&s.UserNames, userNamesFull}, {&s.Mode, modePool},
		{&s.TimezoneData, timezoneDataNewest},
		{&s.FactsIndex, ""}, {&s.PublishTo.Pool, ""}, {&s.PublishTo.Index, s.FactsIndex},
		{&s.SnapshotBucket, ""}, {&s.SegmentBucket, ""}, {&s.BucketEndpoint, ""}}
	for _, f := range s.ListFiles.All() {
		texts = append(texts, text{f.Name, f.Default})
	}
	for _, d := range texts {
		if *d.value = strings.TrimSpace(*d.value); *d.value == "" {
			*d.value = d.empty
		}
	}
	// Check what remains.
	database := localtime.Newest()
	if s.TimezoneData == timezoneDataEmbedded {
		database = localtime.Embedded()
	}
	var err error
	s.zone, err = database.Parse(s.Timezone)
	if err = cmp.Or(err, s.checkPlace(), s.checkValues(), s.checkPaths()); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// checkValues refuses numbers and words that are not possible.
func (s *Settings) checkValues() error {
	const mostMB = 1 << 20 // of a cache
	switch {
	case !slices.Contains([]int{0, 5, 10, 15, 30, 60}, s.SliceMinutes): // methodology section 4
		return pool.BadQuery("sliceMinutes %d is unknown: use 0 (every snapshot its own slice), 5, 10, 15, 30 "+
			"or 60", s.SliceMinutes)
	case s.CacheMaxMB < 1:
		return pool.BadQuery("cacheMaxMB %d is too small: use at least 1 (default 512)", s.CacheMaxMB)
	case s.CacheDiskMB < 0:
		return pool.BadQuery("cacheDiskMB %d is negative: use 0 or more (default 2048)", s.CacheDiskMB)
	case s.CacheMaxMB > mostMB, s.CacheDiskMB > mostMB:
		return pool.BadQuery("cacheMaxMB and cacheDiskMB are %d at most (a terabyte)", mostMB)
	case s.FiscalYearStart < 1 || s.FiscalYearStart > 12:
		return pool.BadQuery("fiscalYearStart must be 1 (January, the default) to 12; got %d", s.FiscalYearStart)
	case !slices.Contains([]string{jobsNone, jobsSQLite, jobsElasticsearch}, s.Jobs):
		return pool.BadQuery("jobs %q is unknown: use %s, %s or %s", s.Jobs, jobsNone, jobsSQLite, jobsElasticsearch)
	case !slices.Contains([]string{timezoneDataNewest, timezoneDataEmbedded}, s.TimezoneData):
		return pool.BadQuery("timezoneData %q is unknown: use %s or %s", s.TimezoneData, timezoneDataNewest,
			timezoneDataEmbedded)
	case !slices.Contains([]string{modePool, modeFleet}, s.Mode):
		return pool.BadQuery("mode %q is unknown: use %s or %s", s.Mode, modePool, modeFleet)
	case !slices.Contains([]string{userNamesFull, userNamesPseudonyms}, s.UserNames):
		return pool.BadQuery("userNames %q is unknown: use %s or %s", s.UserNames, userNamesFull, userNamesPseudonyms)
	}
	return nil
}

// checkPaths refuses directories that are not absolute, and files that are not plain names. It cleans the directories,
// so that the path that is compared with the allowed ones is also the path that is opened.
func (s *Settings) checkPaths() error {
	for _, dir := range []struct {
		name string
		path *string
	}{{"snapshotDir", &s.SnapshotDir}, {"cacheDir", &s.CacheDir}} {
		if *dir.path == "" {
			continue
		}
		if !filepath.IsAbs(*dir.path) {
			return pool.BadQuery("%s is not absolute: write the whole path", dir.name)
		}
		*dir.path = filepath.Clean(*dir.path)
	}
	for _, f := range append(s.ListFiles.All(), snapshots.ListFile{Setting: "jobsPath", Name: &s.JobsPath}) {
		if file := *f.Name; file != filepath.Base(file) || !filepath.IsLocal(file) || file == "." {
			return pool.BadQuery("%s %q is not a plain file name: the file must lie inside snapshotDir", f.Setting, file)
		}
	}
	return nil
}

// checkPlace reports whether there is one place of snapshots, and that it can be one.
func (s *Settings) checkPlace() error {
	if s.Mode == modeFleet {
		if s.SnapshotDir != "" || s.SnapshotBucket != "" {
			return pool.BadQuery("mode is %s, and snapshotDir or snapshotBucket is set: a fleet answers from published facts "+
				"only. Add a separate data source for the pool", modeFleet)
		}
		if s.PublishTo.Pool != "" {
			return pool.BadQuery("mode is %s, and publishTo is set: publishing requires snapshots", modeFleet)
		}
		return fleet.CheckIndex(s.FactsIndex)
	}
	switch {
	case s.SnapshotDir == "" && s.SnapshotBucket == "":
		return pool.BadQuery("snapshotDir is not set: enter the directory of the gpu_state_YYYY-MM files; if they are in " +
			"S3, set snapshotBucket instead")
	case s.SnapshotDir != "" && s.SnapshotBucket != "":
		return pool.BadQuery("snapshotDir and snapshotBucket are both set: the snapshots are in one of them")
	case s.PublishTo.Pool == "" && s.PublishTo.Index != s.FactsIndex:
		return pool.BadQuery("publishTo has an index but no pool: set publishTo.pool to the name shown in the fleet")
	case s.PublishTo.Pool != "":
		if err := fleet.CheckIndex(s.PublishTo.Index); err != nil {
			return pool.BadQuery("publishTo: %w", err)
		}
	}
	for _, b := range s.buckets() {
		if err := s.bucketOptions(b.url, nil).Check(); err != nil {
			return pool.BadQuery("%s: %w", b.name, err)
		}
	}
	return nil
}

// bucketSetting is a setting that names a bucket.
type bucketSetting struct{ name, url string }

func (s *Settings) buckets() []bucketSetting {
	all := []bucketSetting{{"snapshotBucket", s.SnapshotBucket}, {"segmentBucket", s.SegmentBucket}}
	return slices.DeleteFunc(all, func(b bucketSetting) bool { return b.url == "" })
}

// Variables of the environment with the directories and the buckets that the server's operator lets data sources use:
// `allowed_dirs` and `allowed_buckets` of the section [plugin.chtc-gpureports-datasource] in grafana.ini, separated by
// commas. Without allowed_dirs, each directory will do; without allowed_buckets, no bucket.
const (
	allowedDirs    = "GF_PLUGIN_ALLOWED_DIRS"
	allowedBuckets = "GF_PLUGIN_ALLOWED_BUCKETS"
)

// listed returns the entries of a variable of the environment that are separated by commas.
func listed(variable string) (entries []string) {
	for _, entry := range strings.Split(os.Getenv(variable), ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// allowDirs refuses settings with a directory outside the allowed ones.
func (s *Settings) allowDirs() error {
	return errors.Join(allow("snapshotDir", s.SnapshotDir), allow("cacheDir", s.CacheDir))
}

// allow refuses a directory outside the allowed ones. Links are resolved first, on both sides; a part of the path that
// does not exist yet is compared unresolved.
func allow(setting, dir string) error {
	dirs := listed(allowedDirs)
	if len(dirs) == 0 || dir == "" {
		return nil
	}
	resolved := resolve(dir)
	for _, allowed := range dirs {
		if rel, err := filepath.Rel(resolve(allowed), resolved); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return pool.BadQuery("%s %s is outside the directories that this server allows: use one inside them, or have the "+
		"operator extend allowed_dirs of [plugin.%s] in grafana.ini", setting, dir, ID)
}

// resolve follows the links of the part of a path that exists.
func resolve(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}

// asDeclared gives the fields of a JSON object the types that a struct declares. Provisioning with variables of the
// environment, such as sliceMinutes: $SLICE, hands numbers and booleans over as texts, and texts of digits as numbers.
// An empty text in place of a number or boolean is the default. Errors come from the JSON.
func asDeclared(object []byte, declared reflect.Type) ([]byte, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(object, &given); err != nil {
		return nil, err
	}
	for _, field := range reflect.VisibleFields(declared) {
		name := field.Tag.Get("json")
		value, there := given[name]
		if !there {
			continue
		}
		switch kind := field.Type.Kind(); {
		case kind == reflect.Struct && value[0] == '{':
			inner, err := asDeclared(value, field.Type)
			if err != nil {
				return nil, err
			}
			given[name] = inner
		case kind == reflect.String && strings.ContainsAny(string(value[:1]), "-0123456789"):
			given[name] = []byte(strconv.Quote(string(value)))
		case (kind == reflect.Int || kind == reflect.Bool) && value[0] == '"':
			var text string
			_ = json.Unmarshal(value, &text) // it is a text
			if text = strings.TrimSpace(text); text == "" {
				delete(given, name)
			} else if json.Valid([]byte(text)) { // otherwise the error names the value
				given[name] = []byte(text)
			}
		}
	}
	return json.Marshal(given)
}

// Names in secureJsonData.
const (
	secretAccessKey = "bucketAccessKey"
	secretSecretKey = "bucketSecretKey"
	pseudonymSecret = "pseudonymSecret" // that pseudonyms are made with
)

func (s *Settings) bucketOptions(url string, secrets map[string]string) bucket.Options {
	return bucket.Options{
		URL: url, Endpoint: s.BucketEndpoint, Region: s.BucketRegion, PathStyle: s.BucketPathStyle, CA: s.BucketCA,
		AccessKey: strings.TrimSpace(secrets[secretAccessKey]), SecretKey: strings.TrimSpace(secrets[secretSecretKey]),
		Organization: s.organization,
	}
}

// allowBucket refuses a bucket that no entry of allowed_buckets names. An entry is s3://bucket/prefix, that bucket on
// any server, https://server/bucket/prefix, that bucket on this server only, or *. Nothing is allowed by default,
// because otherwise an editor of a data source could make this server read, with its own keys, buckets that the editor
// may not read.
//
// The server's own keys go only to Amazon or to a server that an entry names: an editor chooses the endpoint.
func allowBucket(setting string, o bucket.Options) error {
	endpoint := strings.TrimRight(o.Endpoint, "/")
	place := strings.TrimPrefix(o.Name(), "s3://")
	for _, entry := range listed(allowedBuckets) {
		entry = strings.TrimRight(entry, "/")
		anyServer := within(place, strings.TrimPrefix(entry, "s3://")) && strings.HasPrefix(entry, "s3://")
		thisServer := endpoint != "" && within(endpoint+"/"+place, entry)
		switch {
		case thisServer,
			anyServer && (o.OwnKeys() || endpoint == ""),
			entry == "*" && o.OwnKeys():
			return nil
		}
	}
	if !o.OwnKeys() {
		return pool.BadQuery("%s %s has no keys of its own, and may not use this server's keys: set the keys, or have the "+
			"operator name the server and the bucket in allowed_buckets of [plugin.%s] in grafana.ini",
			setting, o.Name(), ID)
	}
	return pool.BadQuery("%s %s is not among the buckets that this server allows: have the operator add it to "+
		"allowed_buckets of [plugin.%s] in grafana.ini", setting, o.Name(), ID)
}

// within reports whether a place is the other one or below it.
func within(place, other string) bool {
	return place == other || strings.HasPrefix(place, other+"/")
}
