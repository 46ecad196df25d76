package report

import (
	"cmp"
	"context"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/pool"
)

// oldestForMail is the greatest age of the newest snapshot with which mails are sent: jobs that an older one shows as
// idle may have ended. The alert rule on stale snapshots has the same limit.
const oldestForMail = 45 * time.Minute

// Addresses finds the mail address of a user of the pool. Users choose their names, so a name becomes an address only
// if it is a plain local part.
type Addresses struct {
	Of     map[string]string // by user, with or without the user's domain; they come before Domain
	Domain string            // other users have an address there: alice is alice@Domain; "" = they have no address
}

var localPart = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// find returns a user's address, without a display name, or false if the user has none.
func (a Addresses) find(user string) (address string, ok bool) {
	name, _, _ := strings.Cut(user, "@")
	if address = cmp.Or(a.Of[user], a.Of[name]); address == "" {
		if a.Domain == "" || !localPart.MatchString(name) {
			return "", false
		}
		address = name + "@" + a.Domain
	}
	parsed, err := mail.ParseAddress(address)
	return address, err == nil && parsed.Address == address
}

// Check fails if an address of the list, or the domain, cannot be mailed.
func (a Addresses) Check() error {
	for user := range a.Of {
		if address, ok := a.find(user); !ok {
			return pool.BadQuery("mail addresses: %q of user %q is not an address: write name@example.org, without a "+
				"display name", address, user)
		}
	}
	if address, ok := (Addresses{Domain: a.Domain}).find("user"); a.Domain != "" && !ok {
		return pool.BadQuery("mail addresses: %q has no valid domain: write one such as example.org", address)
	}
	return nil
}

// Letter is a mail to one user about the GPUs that this user's jobs hold and leave idle.
type Letter struct {
	User, Address string // Address: "" if the user has none
	*Report
}

// IdleLetters asks the data source which GPUs are idle now (view idle of utilization, methodology section 13), and
// writes a letter to each user who holds some. The window is that of the idle hours; it ends now. Contact says whom to
// ask. Errors: the newest snapshot is more than 45 min old or ahead of the clock; a query has no answer.
func IdleLetters(ctx context.Context, source backend.QueryDataHandler, o Options, to Addresses,
	contact string) (letters []Letter, err error) {
	// Ask which GPUs are idle, and how old the newest snapshot is.
	o.Zone = cmp.Or(o.Zone, time.UTC)
	answers, err := o.answersTo(ctx, source, backend.TimeRange{From: o.From, To: o.To}, ask("allocation", "health"),
		ask("utilization", "idle", "limit", mostRows),
		ask("utilization", "summary", "groupBy", names{"user"}, "metrics", names{"idleGpuHours"}, "limit", mostRows))
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		if answer.Error != nil {
			return nil, fmt.Errorf("idle GPUs: %w", answer.Error)
		}
	}
	health := records(answers[0].Frames)
	if len(health) == 0 {
		return nil, pool.SourceError("idle GPUs: there is no snapshot, so nobody is mailed")
	}
	age := time.Duration(health[0].number("snapshotAgeSeconds") * float64(time.Second))
	if age > oldestForMail || age < -time.Minute {
		return nil, pool.SourceError("idle GPUs: the newest snapshot is %s old, not between 0 and %s, so nobody is mailed: "+
			"check the collector and the setting timezone", duration(age), duration(oldestForMail))
	}
	// Write a letter to each user.
	hours := map[string]float64{}
	for _, row := range records(answers[2].Frames) {
		hours[row.text("user")] = row.number("idleGpuHours")
	}
	runs := map[string][]record{}
	for _, row := range records(answers[1].Frames) {
		user := row.text("user")
		runs[user] = append(runs[user], row)
	}
	for user, idle := range runs {
		address, _ := to.find(user)
		letters = append(letters, Letter{user, address, o.idleLetter(user, idle, hours[user], contact)})
	}
	slices.SortFunc(letters, func(a, b Letter) int { return cmp.Compare(a.User, b.User) })
	return letters, nil
}

// idleLetter writes the letter to a user about runs that are idle, longest first.
func (o Options) idleLetter(user string, idle []record, hours float64, contact string) *Report {
	// List the jobs.
	jobs := &Table{Columns: []Column{{Name: "Job"}, {Name: "Access point"}, {Name: "Machine"},
		{Name: "GPUs", Number: true}, {Name: "Device"}, {Name: "Idle since"}, {Name: "Idle (h)", Number: true}}}
	gpus, example := 0.0, ""
	for _, row := range idle {
		accessPoint, job := jobOf(row.text("job"))
		example = cmp.Or(example, job)
		gpus += row.number("gpus")
		jobs.Rows = append(jobs.Rows, Row{Cells: []string{cmp.Or(clean(job), none), cmp.Or(clean(accessPoint), none),
			clean(row.text("machine")), figure(row.number("gpus"), "", nil), clean(row.text("device")),
			o.value(row.field("idleSince"), row.row), gpuHours(row.number("idleHours"))}})
	}
	// Say what the user can do.
	held := figure(gpus, "", nil) + " GPUs"
	if gpus == 1 {
		held = "1 GPU"
	}
	example = cmp.Or(clean(example), "JOB")
	advice := []string{
		fmt.Sprintf("Look at the job: on its access point, run condor_ssh_to_job %s, and nvidia-smi there. A job that waits "+
			"for data, or computes on CPUs only, leaves them idle.", example),
		fmt.Sprintf("If the job is done or stuck: save what you need, then run condor_rm %s. The GPU is free for others at "+
			"once.", example),
		"If it needs the GPU for a part of its work only: split the job, so that only this part requests a GPU, or have it " +
			"save a checkpoint and exit.",
	}
	if contact != "" {
		advice = append(advice, "Questions? Ask "+visible(contact)+".")
	}
	return &Report{
		Title:    "Your jobs leave " + held + " idle",
		Subtitle: "user " + clean(user) + ", " + o.time(o.Now) + " " + o.Zone.String(),
		Facts:    []Fact{{fmt.Sprintf("Idle GPU hours of the last %s", duration(o.To.Sub(o.From))), gpuHours(hours)}},
		Sections: []Section{
			{Key: "jobs", Title: "Idle now", About: "These jobs have computed nothing on their GPUs for 2 hours or more. " +
				"Others could use them.", Blocks: []Block{{Caption: "Idle now", Table: jobs}}},
			{Key: "advice", Title: "What you can do", Blocks: []Block{{Paragraphs: advice}}},
		},
	}
}

// jobOf splits a GlobalJobId (ap.example.org#1234.0#1756000000) into the access point and the job's number there. A
// text of another form is the job's number as a whole.
func jobOf(id string) (accessPoint, job string) {
	parts := strings.Split(id, "#")
	if len(parts) != 3 {
		return "", id
	}
	return parts[0], parts[1]
}
