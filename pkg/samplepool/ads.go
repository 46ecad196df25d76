package samplepool

import "context"

// Ad is one job ad as adstash stores it (one Elasticsearch _source).
type Ad struct {
	Epoch       bool // an epoch ad (one a finished run); else a history ad (one a job that left the queue or stays on hold)
	GlobalJobID string
	RecordTime  int64  // UTC epoch seconds of the access point's clock
	ID          string // document id: GlobalJobId#RecordTime, of epoch ads GlobalJobId#NumShadowStarts#RecordTime
	JSON        []byte // refactored schema (HTCondor 25.14+)
	Legacy      []byte // the same ad in the legacy schema; nil for epoch ads
}

// Ads are all ads that reached the archive by the pool's End, by RecordTime.
func (p *Pool) Ads(ctx context.Context) ([]Ad, error) { return nil, nil }
