package pool

// Why runs were evicted, and what their outcome is based on, weakest first (methodology section 8).
var (
	Causes = []string{"", "owner preemption", "user or rank preemption", "drain or maintenance", "fault", "access point",
		"unknown"}
	Evidences = []string{"none", "reappeared", "takeover", "job ad"}
)
