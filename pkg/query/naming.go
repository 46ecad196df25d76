package query

// Holds says whom or what a column of texts names, where not everyone may see it.
type Holds uint8

// What columns can hold.
const (
	Anything Holds = iota
	Users          // of the pool: RemoteOwner, or the owner of a job
	Jobs           // GlobalJobId
)

// Naming is how the one who asks sees users and jobs, and by which names a filter may ask for users. The zero value
// knows them as they are stored.
type Naming struct {
	Key       string                       // differs where filters choose other users: part of the names of what is kept
	User, Job func(stored string) string   // how answers call them; nil: as they are stored
	Taken     func(stored string) []string // a user's names in filters; nil: the stored one
}

// shown is a stored text of a column as answers show it.
func (n *Naming) shown(holds Holds, stored string) string {
	switch {
	case holds == Users && stored == "":
		return Unknown
	case holds == Users && n.User != nil:
		return n.User(stored)
	case holds == Jobs && stored != "" && n.Job != nil:
		return n.Job(stored)
	}
	return stored
}

// taken are the names by which a filter may ask for a user.
func (n *Naming) taken(stored string) []string {
	if n.Taken == nil || stored == "" {
		return []string{shownStored(Users, stored)}
	}
	return n.Taken(stored)
}

// shownStored is a stored text as those see it who see everything.
func shownStored(holds Holds, stored string) string { return new(Naming).shown(holds, stored) }

// Shown is a stored text of a column as tables, labels and filters show it: a missing device or user is Unknown,
// missing projects are "", and users and jobs have the names that the one who asks may see.
func (p *Plan) Shown(column, stored string) string {
	if column == "device" {
		return shownDevice(stored)
	}
	return p.Env.Naming.shown(p.holds[column], stored)
}

func shownDevice(stored string) string {
	if stored == "" {
		return Unknown
	}
	return stored
}

// MatchUser reports whether the filter lets a user pass, by any of the names that it may call them; "" is unknown.
func (s *Selection) MatchUser(stored string) bool {
	return s.Users.All() || s.Users.MatchAny(s.naming.taken(stored)...)
}

// NamesOfUser are the names by which the filter may call a user.
func (s *Selection) NamesOfUser(stored string) []string { return s.naming.taken(stored) }
