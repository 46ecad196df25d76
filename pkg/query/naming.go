package query

// MatchUser reports whether the filter lets a user pass, by any of the names that it may call them; "" is unknown. A user
// without a domain, as queues name the owners of jobs, passes if the filter has them with any domain.
func (s *Selection) MatchUser(stored string) bool {
	if s.Users.All() {
		return true
	}
	names := s.naming.taken(stored)
	if stored != "" && !strings.Contains(stored, "@") {
		names = append(slices.Clone(names), s.Users.beginningWith(stored+"@")...)
	}
	return s.Users.MatchAny(names...)
}

// MatchTakenOver reports whether the filter lets pass a run whose GPUs a user took over; taken is false if no user did.
func (s *Selection) MatchTakenOver(stored string, taken bool) bool {
	if !taken {
		return s.TakenOverBy.All()
	}
	return s.TakenOverBy.All() || s.TakenOverBy.MatchAny(s.naming.taken(stored)...)
}

// NamesOfUser are the names by which the filter may call a user.
func (s *Selection) NamesOfUser(stored string) []string { return s.naming.taken(stored) }
