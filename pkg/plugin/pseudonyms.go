package plugin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// naming decides how a user sees users and jobs. Editors and administrators see names, and their filters also accept
// pseudonyms. Everyone else, including users whose role is unknown, sees pseudonyms, and their filters accept nothing
// but these, because a filter that accepted names would show which pseudonym belongs to which name. Answers to alert
// rules always have pseudonyms, because notifications reach people of all roles.
func (d *Datasource) naming(user *backend.User, fromAlert bool) query.Naming {
	if d.names == nil {
		return query.Naming{}
	}
	pseudonymous := query.Naming{Key: userNamesPseudonyms, User: d.names.user, Job: d.names.job,
		Taken: func(name string) []string { return []string{d.names.user(name)} }}
	if !trusted(user) {
		return pseudonymous
	}
	both := query.Naming{Key: userNamesFull, Taken: func(name string) []string {
		return []string{name, d.names.user(name)}
	}}
	if fromAlert {
		both.Key, both.User, both.Job = "alert", pseudonymous.User, pseudonymous.Job
	}
	return both
}

// trusted reports whether a user may see names, and where things lie: editors and administrators do.
func trusted(user *backend.User) bool {
	return user != nil && (user.Role == "Editor" || user.Role == "Admin")
}

// pseudonyms number users and jobs. A number comes from the name and a secret, not from the order of anything: it stays
// the same as the pool grows, in each replica and after a restart, and reveals nothing about the name without the
// secret. It is safe for concurrent use.
type pseudonyms struct {
	secret []byte
	mu     sync.Mutex
	shown  map[string]string // by user
	taken  map[string]bool   // the pseudonyms
}

func newPseudonyms(secret string) (*pseudonyms, error) {
	const shortestSecret = 16 // characters: a shorter one could be guessed, and names tried with it
	if len(secret) < shortestSecret {
		return nil, pool.BadQuery("userNames is %s, and %s of the secure settings has %d characters: write at least %d "+
			"random ones, and keep them: changing the secret changes every pseudonym", userNamesPseudonyms, pseudonymSecret,
			len(secret), shortestSecret)
	}
	return &pseudonyms{secret: []byte(secret), shown: map[string]string{}, taken: map[string]bool{}}, nil
}

// Pseudonyms are as long as they must be for two users hardly ever to have the same number, 1 in 2,000 pools of 1,000
// users, and for two jobs of a long table.
const (
	userNumbers = 1_000_000_000
	jobNumbers  = 1_000_000_000_000_000
)

// user is a user's pseudonym. If two users have the same number, the one requested later gets the next free number.
func (p *pseudonyms) user(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown, known := p.shown[name]
	if known {
		return shown
	}
	for try := uint64(0); shown == "" || p.taken[shown]; try++ {
		shown = "User " + strconv.FormatUint(p.number("user", name, try)%userNumbers, 10)
	}
	p.shown[strings.Clone(name)], p.taken[shown] = shown, true
	return shown
}

// job is a job's pseudonym: its id would name its access point and cluster, which reveal the user.
func (p *pseudonyms) job(id string) string {
	return "Job " + strconv.FormatUint(p.number("job", id, 0)%jobNumbers, 10)
}

func (p *pseudonyms) number(of, name string, try uint64) uint64 {
	mac := hmac.New(sha256.New, p.secret)
	fmt.Fprintf(mac, "%s\x00%d\x00%s", of, try, name)
	return binary.BigEndian.Uint64(mac.Sum(nil))
}

var (
	numbered = regexp.MustCompile(`^(User|Job) \d+$`)
	nobody   = map[string]bool{"": true, query.Unknown: true, query.Other: true, "All": true} // groups that are not users
)

// check refuses an answer if a column or label that contains users or jobs, as its kind describes it, has anything but
// pseudonyms and the user may see nothing else. It keeps a mistake in a kind from showing names.
func (p *pseudonyms) check(naming query.Naming, r query.Request, answer data.Frames) error {
	if naming.User == nil {
		return nil
	}
	holds := r.Asked.Names()
	refuse := func(column, text string) error {
		if holds[column] == query.Anything || nobody[text] || numbered.MatchString(text) {
			return nil
		}
		return fmt.Errorf("the column %s of %s has names although only pseudonyms may be shown: please report this", column,
			strings.TrimSuffix(r.QueryType+"/"+r.View, "/"))
	}
	for _, frame := range answer {
		for _, field := range frame.Fields {
			for label, text := range field.Labels {
				if err := refuse(label, text); err != nil {
					return err
				}
			}
			for i := 0; holds[field.Name] != query.Anything && i < field.Len(); i++ {
				text, _ := field.ConcreteAt(i)
				if err := refuse(field.Name, fmt.Sprint(text)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
