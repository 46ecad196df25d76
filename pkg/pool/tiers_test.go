package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTierOf(t *testing.T) {
	for device, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "Flagship", "NVIDIA H200 NVL": "Flagship", "nvidia a100-sxm4-80gb": "Flagship",
		"NVIDIA A100-SXM4-40GB": "Standard", "NVIDIA L40S": "Standard", "": "Unknown", " ": "Unknown",
	} {
		require.Equal(t, want, Lists{}.TierOf(device), device)
	}
	lists := Lists{Tiers: []Tier{{"Big", []string{"A100", "L40"}}, {"Old", []string{"A100-SXM4-40GB", "1080"}}}}
	require.Equal(t, "Big", lists.TierOf("NVIDIA A100-SXM4-40GB"), "the first that fits")
	require.Equal(t, "Old", lists.TierOf("GTX 1080 Ti"))
	require.Equal(t, "Standard", lists.TierOf("NVIDIA H200"))
	require.Equal(t, "Standard", Lists{Tiers: []Tier{}}.TierOf("NVIDIA H200"), "a file without tiers")
}
