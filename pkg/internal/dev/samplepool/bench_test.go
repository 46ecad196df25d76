package samplepool

import (
	"context"
	"os"
	"testing"
	"time"
)

// month is 30 days of 900 GPUs at 15 minutes: about 4 million rows.
func month(b *testing.B) *Pool {
	o := Default()
	o.Machines, o.GPUs, o.Timezone = 150, 900, "UTC"
	o.Start, o.End = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	p, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkSnapshots(b *testing.B) {
	p, rows := month(b), 0
	for b.Loop() {
		for shot, err := range p.Snapshots(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			rows += len(shot.Rows)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/float64(b.N), "rows")
}

func BenchmarkWriteSnapshots(b *testing.B) { benchmarkWrite(b, (*Pool).WriteSnapshots) }
func BenchmarkWriteAds(b *testing.B)       { benchmarkWrite(b, (*Pool).WriteAds) }
func BenchmarkWriteTruth(b *testing.B)     { benchmarkWrite(b, (*Pool).WriteTruth) }

func benchmarkWrite(b *testing.B, write func(*Pool, context.Context, string) error) {
	p := month(b)
	for b.Loop() {
		dir, err := os.MkdirTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		if err := write(p, b.Context(), dir); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
	}
}
