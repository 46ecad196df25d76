package accuracy

import (
	"context"
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/samplepool"
)

// source are a sample pool's ads of one kind, in memory.
type source struct {
	byJob     map[string][]jobs.Ad
	byMachine map[string][]jobs.Ad // and day
}

func adsOf(all []samplepool.Ad, epochs bool) (*source, error) {
	s := &source{map[string][]jobs.Ad{}, map[string][]jobs.Ad{}}
	for _, a := range all {
		if a.Epoch != epochs {
			continue
		}
		ad, err := jobs.ParseAd(a.JSON)
		if err != nil {
			return nil, fmt.Errorf("reading an ad of a sample pool: %w", err)
		}
		s.byJob[ad.GlobalJobID] = append(s.byJob[ad.GlobalJobID], ad)
		s.byMachine[jobs.ByMachineDay(&ad)] = append(s.byMachine[jobs.ByMachineDay(&ad)], ad)
	}
	return s, nil
}

// Ads implements [jobs.Source].
func (s *source) Ads(_ context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	result := jobs.Result{Ads: make([][]jobs.Ad, len(wanted))}
	for i, w := range wanted {
		result.Ads[i] = s.byJob[w.Job]
	}
	return result, nil
}

// AdsOnMachines implements [jobs.Source].
func (s *source) AdsOnMachines(_ context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	result := jobs.Result{Ads: make([][]jobs.Ad, len(days))}
	for i, day := range days {
		result.Ads[i] = s.byMachine[day.Key()]
	}
	return result, nil
}

// Epochs implements [jobs.Source].
func (s *source) Epochs(_ context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	result := jobs.Result{Ads: make([][]jobs.Ad, len(days))}
	for i, day := range days {
		for _, ad := range s.byMachine[day.MachineDay.Key()] {
			if ad.Kind == jobs.Epoch && (day.Longest == 0 || ad.EpochWriteDate.Sub(ad.JobCurrentStartDate) <= day.Longest) {
				result.Ads[i] = append(result.Ads[i], ad)
			}
		}
	}
	return result, nil
}

// Newest implements [jobs.Source].
func (s *source) Newest(context.Context) (time.Time, error) { return time.Time{}, nil }

// Health implements [jobs.Source].
func (s *source) Health(context.Context) (jobs.Health, error) { return jobs.Health{}, nil }

// Close implements [jobs.Source].
func (s *source) Close() error { return nil }
