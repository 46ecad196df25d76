package collect

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
)

// Target is a bucket that snapshots go to, in place of month files. Its keys are those of the environment or of the
// machine: on a command line everybody on the machine would see them.
type Target struct {
	URL       string `name:"to" help:"Bucket that the snapshots go to, an object each, merged into an object a day when it is over. Its keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment, or the machine's." placeholder:"s3://BUCKET/PREFIX"`
	Endpoint  string `name:"bucket-endpoint" help:"URL of the S3 server; default: Amazon's." placeholder:"URL"`
	Region    string `name:"bucket-region" help:"Region of the bucket." placeholder:"REGION"`
	PathStyle bool   `name:"bucket-path-style" help:"The bucket's name is part of the path, as Ceph has it without a wildcard in its DNS."`
	CA        []byte `name:"bucket-ca" help:"File of certificates (PEM) that the server's may be signed with, beside the system's." type:"filecontent" placeholder:"FILE"`
}

func (t Target) options() bucket.Options {
	return bucket.Options{URL: t.URL, Endpoint: t.Endpoint, Region: t.Region, PathStyle: t.PathStyle, CA: string(t.CA)}
}

// check reports whether the target can be used with the other options.
func (t Target) check(jobs bool) error {
	switch {
	case t.URL == "":
		return nil
	case jobs:
		return pool.BadQuery("collect: polls go into the snapshot directory only: use --jobs without --to, and copy the " +
			"job_pressure files into the bucket")
	}
	return t.options().Check()
}

// write puts the snapshot into the bucket, and merges the days before it. note says what failed when the snapshot was
// already written.
func (t Target) write(ctx context.Context, s snapshot, at time.Time) (rows int, note string, err error) {
	b, err := bucket.Open(t.options())
	if err != nil {
		return 0, "", err
	}
	defer b.Close()
	all := s.schemaRows()
	if err := objects.PutSnapshot(ctx, b, at, s.timestamp, all); err != nil {
		return 0, "", err
	}
	if _, err := objects.Merge(ctx, b, s.timestamp[:len("2026-07-01")]); err != nil {
		note = err.Error() + " (the next run goes on with it)"
	}
	return len(all), note, nil
}

// count returns the rows of a snapshot in the bucket.
func (t Target) count(ctx context.Context, timestamp string) (int, error) {
	b, err := bucket.Open(t.options())
	if err != nil {
		return 0, err
	}
	defer b.Close()
	return objects.CountSnapshot(ctx, b, timestamp)
}
