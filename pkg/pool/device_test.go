package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMIGProfile(t *testing.T) {
	for _, c := range []struct {
		id, device, profile string
		part                bool
	}{
		{"GPU-a0223334", "NVIDIA A100-SXM4-80GB", "", false},
		{"GPU-a0223334", "", "", false},
		{"MIG-6f8a01c2", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "1g.10gb", true},
		{"MIG-6f8a01c2", "NVIDIA H200 MIG 1g.18gb+me", "1g.18gb+me", true},
		{"CUDA0", "NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb", "2c.3g.40gb", true},
		{"MIG-GPU-6f8a01c2/7/0", "NVIDIA A100-SXM4-80GB", "", true},
	} {
		profile, part := MIGProfile(c.id, c.device)
		require.Equal(t, c.part, part, c)
		require.Equal(t, c.profile, profile, c)
	}
}
