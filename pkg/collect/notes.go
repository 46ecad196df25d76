package collect

import (
	"cmp"
	"fmt"
	"strings"
)

// notes count the parts of ads that could not be stored unchanged.
type notes struct {
	attributes []string // in the order in which they are named
	things     string   // slots or jobs
	missing    string   // how an unread value is stored

	instead map[string]string // the same by attribute, if it differs

	unread  map[string]int // ads by attribute
	foreign int            // ads with bytes that are not UTF-8
	first   string         // name of the first ad concerned
}

// of records the unreadable attributes of an ad, and whether it is valid UTF-8.
func (n *notes) of(name string, valid bool, unread map[string]bool) {
	concerned := !valid
	if !valid {
		n.foreign++
	}
	for attribute, bad := range unread {
		if bad {
			concerned = true
			n.count(attribute, 1)
		}
	}
	if concerned && n.first == "" {
		n.first = name
	}
}

func (n *notes) count(attribute string, ads int) {
	if n.unread == nil {
		n.unread = map[string]int{}
	}
	n.unread[attribute] += ads
}

// add adds the notes on another access point's ads.
func (n *notes) add(other *notes) {
	for attribute, ads := range other.unread {
		n.count(attribute, ads)
	}
	n.foreign += other.foreign
	n.first = cmp.Or(n.first, other.first)
}

// String returns the notes as sentences, "" without any.
func (n *notes) String() string {
	var parts []string
	for _, name := range n.attributes {
		if ads := n.unread[name]; ads > 0 {
			parts = append(parts, fmt.Sprintf("%s of %d %s is an expression or of a wrong type: %s", name, ads, n.things,
				cmp.Or(n.instead[name], n.missing)))
		}
	}
	if n.foreign > 0 {
		parts = append(parts, fmt.Sprintf("%d %s hold bytes that are not UTF-8: stored as U+FFFD", n.foreign, n.things))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + " (first: " + strings.TrimSpace(n.first) + ")"
}
