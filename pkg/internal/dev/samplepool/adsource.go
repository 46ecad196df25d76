package samplepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/chtc/gpureports/pkg/jobs"
)

// AdSource is a [jobs.Source] over a sample pool's ads, which it holds in memory.
type AdSource struct {
	byJob     map[string][]jobs.Ad
	onMachine map[string][]string // the jobs with an ad of a run that began on a machine on a day
}

// AdSource returns a source of the ads that fit.
func (p *Pool) AdSource(ctx context.Context, fits func(*Ad) bool) (*AdSource, error) {
	s := &AdSource{map[string][]jobs.Ad{}, map[string][]string{}}
	var failed error
	err := p.EachAd(ctx, func(a Ad) {
		if failed == nil && fits(&a) {
			failed = s.add(a.JSON)
		}
	})
	return s, cmp.Or(err, failed)
}

func (s *AdSource) add(document []byte) error {
	ad, err := jobs.ParseAd(document)
	if err != nil {
		return fmt.Errorf("reading an ad of a sample pool: %w", err)
	}
	ads := s.byJob[ad.GlobalJobID]
	for _, text := range []*string{&ad.AccessPoint, &ad.User, &ad.Owner, &ad.ChtcProjects, &ad.Machine, &ad.Slot} {
		*text = unique.Make(*text).Value() // one copy each, because benchmarks hold this source in their process
	}
	if len(ads) > 0 {
		ad.GlobalJobID = ads[0].GlobalJobID
	}
	at, _ := slices.BinarySearchFunc(ads, ad, jobs.Compare)
	s.byJob[ad.GlobalJobID] = slices.Insert(ads, at, ad)
	key := jobs.ByMachineDay(&ad)
	if of := s.onMachine[key]; !slices.Contains(of, ad.GlobalJobID) {
		s.onMachine[key] = append(of, ad.GlobalJobID)
	}
	return nil
}

// began returns the ads that fit of runs that began on a machine on a day.
func (s *AdSource) began(day jobs.MachineDay, fits func(*jobs.Ad) bool) (ads []jobs.Ad) {
	key := day.Key()
	for _, job := range s.onMachine[key] {
		for _, ad := range s.byJob[job] {
			if jobs.ByMachineDay(&ad) == key && fits(&ad) {
				ads = append(ads, ad)
			}
		}
	}
	slices.SortFunc(ads, jobs.Compare)
	return ads
}

// Ads implements [jobs.Source].
func (s *AdSource) Ads(_ context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	return each(wanted, func(w jobs.Wanted) []jobs.Ad { return s.byJob[w.Job] })
}

// AdsOnMachines implements [jobs.Source].
func (s *AdSource) AdsOnMachines(_ context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	return each(days, func(day jobs.MachineDay) []jobs.Ad {
		return s.began(day, func(*jobs.Ad) bool { return true })
	})
}

// Epochs implements [jobs.Source].
func (s *AdSource) Epochs(_ context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	return each(days, func(day jobs.EpochDay) []jobs.Ad { return s.began(day.MachineDay, day.Allows) })
}

func each[T any](asked []T, ads func(T) []jobs.Ad) (result jobs.Result, err error) {
	for _, one := range asked {
		result.Ads = append(result.Ads, ads(one))
	}
	return result, nil
}

// Newest implements [jobs.Source].
func (s *AdSource) Newest(context.Context) (time.Time, error) { return time.Time{}, nil }

// Health implements [jobs.Source].
func (s *AdSource) Health(context.Context) (jobs.Health, error) { return jobs.Health{}, nil }

// Close implements [jobs.Source].
func (s *AdSource) Close() error { return nil }
