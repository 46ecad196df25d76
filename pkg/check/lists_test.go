package check

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

var machines = []string{"alpha1.example.org", "beta1.example.org", "beta2.example.org", "gamma1.example.org"}

func owned(names ...string) pool.Lists {
	lists := pool.Lists{CHTCOwned: map[string]bool{}}
	for _, name := range names {
		lists.CHTCOwned[name] = true
	}
	return lists
}

func TestOwnership(t *testing.T) {
	for _, c := range []struct {
		entries  []string
		severity string
		text     string
	}{
		{nil, Note, "lists no machine"},
		{[]string{"beta1.example.org", "gamma1.example.org"}, OK, "of 2 machines in chtcOwnedFile snapshots know 2"},
		{[]string{"beta1.example.org", "gone.example.org"}, Note, "snapshots know 1; no snapshot knows gone.example.org"},
		{[]string{"Beta1.example.org"}, Warning, "Beta1.example.org (it is beta1.example.org)"},
		{[]string{"beta1", "gone"}, Warning, "no snapshot knows gone: gone, without a GPU, or misspelled. Names must be " +
			"whole, and these are not: beta1 (it is beta1.example.org)"},
		{[]string{"beta1.elsewhere.org", "beta1.example.org"}, Note, "no snapshot knows beta1.elsewhere.org"},
	} {
		found := ownershipFinding(owned(c.entries...), machines)
		require.Equal(t, c.severity, found.Severity, "%v: %s", c.entries, found.Text)
		require.Contains(t, found.Text, c.text)
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("gone%02d", i))
	}
	found := ownershipFinding(owned(many...), machines)
	require.Contains(t, found.Text, "gone00, gone01, gone02, gone03, gone04 and 35 more")
	require.Len(t, found.Details["unknown"], 40)
}

func TestExclusions(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		severity string
		text     string
	}{
		{nil, OK, "none"},
		{[]string{"ALPHA"}, OK, `"ALPHA" takes out alpha1.example.org`},
		{[]string{"beta"}, OK, `"beta" takes out beta1.example.org, beta2.example.org`},
		{[]string{"delta"}, Note, `"delta" matches no machine`},
		{[]string{"beta", "beta1"}, Note, `"beta1" matches only machines that others take out already`},
		{[]string{"example"}, Warning, "4 of 4 machines: more than half"},
	} {
		lists := pool.Lists{}
		for _, p := range c.patterns {
			lists.Excluded = append(lists.Excluded, pool.Exclusion{Pattern: p, Reason: "broken"})
		}
		found := exclusionsFinding(lists, machines)
		require.Equal(t, c.severity, found.Severity, "%v: %s", c.patterns, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

func TestProjectNames(t *testing.T) {
	names := map[string][]string{"Lab": {"P1", "P2"}, "Gone": {"P1"}}
	set := func(names ...string) map[string]bool {
		set := map[string]bool{}
		for _, name := range names {
			set[name] = true
		}
		return set
	}
	for _, c := range []struct {
		priority, jobs map[string]bool
		severity       string
		text           string
	}{
		{set("Lab", "Gone"), set("P1", "P2"), OK, "project names: 2 projects in projectNamesFile"},
		{set("Lab"), set("P1", "P2"), Note, "no machine gives priority to Gone: correct"},
		{set("Lab", "Gone"), set("P2"), Note, "no job in the queue files has the project P1: correct"},
		{set("Lab", "Gone"), nil, Note, "collect --jobs"},
	} {
		found := projectNamesFinding(names, c.priority, c.jobs)
		require.Equal(t, c.severity, found.Severity, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}
