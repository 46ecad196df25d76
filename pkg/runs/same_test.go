package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs"
)

// Ads are the same if each answer has the same version; version 0 is not known to be the same as another one.
func TestAdsAreTheSame(t *testing.T) {
	ads := func(versions ...uint64) *Ads {
		a := &Ads{}
		for _, v := range versions {
			a.answers = append(a.answers, jobs.Result{Version: v})
		}
		return a
	}
	require.True(t, ads(1, 2).same(ads(1, 2)))
	require.False(t, ads(1, 2).same(ads(1, 3)))
	require.False(t, ads(1, 2).same(ads(1)))
	require.False(t, ads(1, 0).same(ads(1, 0)))
	require.False(t, ads().same(ads()))
}
