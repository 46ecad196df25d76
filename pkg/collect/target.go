package collect

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Target is a bucket that snapshots and polls go to, in place of month files. Its keys come from the environment or
// of the machine: on a command line everybody on the machine would see them.
type Target struct {
	URL       string `name:"to" help:"Bucket for the snapshots, one object each, merged into one object per day when the day is over, and for polls (job_pressure_YYYY-MM.parquet). The keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or from the machine." placeholder:"s3://BUCKET/PREFIX"`
	Endpoint  string `name:"bucket-endpoint" help:"URL of the S3 server; default: Amazon's." placeholder:"URL"`
	Region    string `name:"bucket-region" help:"Region of the bucket." placeholder:"REGION"`
	PathStyle bool   `name:"bucket-path-style" help:"Put the bucket's name in the path, as Ceph needs unless its DNS has a wildcard."`
	CA        []byte `name:"bucket-ca" help:"File of CA certificates (PEM) for the server, in addition to the system's." type:"filecontent" placeholder:"FILE"`
}

func (t Target) options() bucket.Options {
	return bucket.Options{URL: t.URL, Endpoint: t.Endpoint, Region: t.Region, PathStyle: t.PathStyle, CA: string(t.CA)}
}

// writeObject puts the snapshot into the bucket, and merges the days before it. note describes a failure after the
// snapshot was written.
func (s snapshot) writeObject(ctx context.Context, b *bucket.Bucket, at time.Time) (rows int, note string, err error) {
	all := inFields(parquet.Schema, s.rows)
	if err := objects.PutSnapshot(ctx, b, at, s.timestamp, all); err != nil {
		return 0, "", err
	}
	if _, err := objects.Merge(ctx, b, s.timestamp[:len("2026-07-01")]); err != nil {
		note = err.Error() + " (the next run continues with it)"
	}
	return len(all), note, nil
}

// replace puts a queue file with the poll in the place of the one that it read; if another collector was faster, it
// reads that one's.
func (p *queuePoll) replace(ctx context.Context, b *bucket.Bucket, name string, now func() time.Time) (begun int,
	err error) {
	const patience = 10
	var sent []byte
	for n := 1; ; n++ {
		there, object, err := b.Get(ctx, name)
		condition := object.ETag
		switch {
		case errors.Is(err, bucket.ErrNotFound):
			there, condition = nil, bucket.Absent
		case err != nil:
			return 0, err
		case sent != nil && bytes.Equal(there, sent):
			return begun, nil // it had arrived, only its answer had not
		}
		p.now = now().Unix()
		var out bytes.Buffer
		if begun, err = p.revise(ctx, there, &out); err != nil {
			return 0, err
		}
		sent = out.Bytes()
		_, err = b.Put(ctx, name, sent, condition)
		if !errors.Is(err, bucket.ErrPrecondition) || n == patience {
			return begun, err
		}
	}
}
