package query

import (
	"cmp"
	"slices"
	"strings"
)

// NameKind is the kind of names in a column of texts that not everyone may see.
type NameKind uint8

// The kinds of names in columns.
const (
	Anything NameKind = iota
	Users             // users of the pool: RemoteOwner, or the owner of a job
	Jobs              // GlobalJobId
)

// Naming is how the user of a query sees users and jobs, and which names of users a filter accepts. The zero value uses
// the stored names.
type Naming struct {
	Key       string                       // differs if filters choose other users; part of cache keys
	User, Job func(stored string) string   // how answers call them; nil: as they are stored
	Taken     func(stored string) []string // a user's names in filters; nil: the stored one
}

// shown is a stored text of a column as answers show it.
func (n *Naming) shown(names NameKind, stored string) string {
	switch {
	case names == Users && stored == "":
		return Unknown
	case names == Users && n.User != nil:
		return n.User(stored)
	case names == Jobs && stored != "" && n.Job != nil:
		return n.Job(stored)
	}
	return stored
}

// taken are the names by which a filter may ask for a user.
func (n *Naming) taken(stored string) []string {
	if n.Taken == nil || stored == "" {
		return []string{cmp.Or(stored, Unknown)}
	}
	return n.Taken(stored)
}

// Shown is a stored text of a column as tables, labels and filters show it: a missing device or user is Unknown,
// missing projects are "", and users and jobs have the names that the user of the query may see.
func (p *Plan) Shown(column, stored string) string {
	if column == "device" {
		return cmp.Or(stored, Unknown)
	}
	return p.Env.Naming.shown(p.names[column], stored)
}

// matchUser reports whether the filter lets a user pass, by any of the names that it may call them; "" is unknown. A
// user without a domain, as queues name the owners of jobs, passes if the filter has them with any domain, except for
// those who must not find users by their names.
func (s *Selection) matchUser(stored string) bool {
	users := &s.texts[ByUser]
	if users.All() {
		return true
	}
	names := s.naming.taken(stored)
	if slices.Contains(names, stored) && !strings.Contains(stored, "@") {
		names = append(slices.Clone(names), users.beginningWith(stored+"@")...)
	}
	return users.MatchAny(names...)
}

// matchTakenOver takes the user who took over a run's GPUs, by any of the names that the filter may call them.
func (s *Selection) matchTakenOver(stored string) bool {
	return s.texts[ByTakenOver].MatchAny(s.naming.taken(stored)...)
}

// NamesOfUser are the names by which the filter may call a user.
func (s *Selection) NamesOfUser(stored string) []string { return s.naming.taken(stored) }
