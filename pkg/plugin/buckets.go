package plugin

import (
	"strings"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
)

// Names in secureJsonData.
const (
	secretAccessKey = "bucketAccessKey"
	secretSecretKey = "bucketSecretKey"
)

// bucketOptions returns the options for a bucket of the data source.
func (s *Settings) bucketOptions(url string, secrets map[string]string) bucket.Options {
	return bucket.Options{
		URL: url, Endpoint: s.BucketEndpoint, Region: s.BucketRegion, PathStyle: s.BucketPathStyle, CA: s.BucketCA,
		AccessKey: secrets[secretAccessKey], SecretKey: secrets[secretSecretKey],
	}
}

// Asked counts the requests to the data source's buckets since it was opened.
func (d *Datasource) Asked() (asked bucket.Counts) {
	stores, open := d.stores.look()
	if !open {
		return asked
	}
	if stores.bucket != nil {
		asked = stores.bucket.Counts()
	}
	if shared := stores.Timeline.Shared(); shared != nil {
		counts := shared.Counts()
		asked.Requests += counts.Requests
		asked.Received += counts.Received
		asked.Sent += counts.Sent
	}
	return asked
}

// allowedBuckets returns the buckets that the server's operator lets data sources use: `allowed_buckets` in the section
// [plugin.chtc-gpureports-datasource] of grafana.ini, separated by commas.
func allowedBuckets() (entries []string) { return listed("GF_PLUGIN_ALLOWED_BUCKETS") }

// allowBucket refuses a bucket that no entry of allowed_buckets names. An entry is s3://bucket/prefix, that bucket on
// any server, https://server/bucket/prefix, that bucket on this server only, or *. Nothing is allowed by default,
// because otherwise an editor of a data source could make this server read, with its own keys, buckets that the editor
// may not read.
//
// The server's own keys go only to Amazon or to a server that an entry names: an editor chooses the endpoint.
func allowBucket(setting string, o bucket.Options) error {
	entries := allowedBuckets()
	endpoint := strings.TrimRight(o.Endpoint, "/")
	place := strings.TrimPrefix(o.Name(), "s3://")
	for _, entry := range entries {
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

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
