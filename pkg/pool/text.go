package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// IsBlank reports whether a text column says nothing: NULL, empty and blank are the same (methodology section 2).
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }

// Projects returns the members of a list of projects, as [ProjectList] makes it: comma- or space-separated names.
func Projects(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\n\r", r) })
}

// ProjectList returns the members of a stored list of projects as one value: sorted, joined by commas. The list may be
// one of ClassAds, { "P1", "P2" }; quotes around a member are dropped (methodology section 1).
func ProjectList(text string) string {
	projects := Projects(text)
	if strings.ContainsAny(text, `{}[]"'`) || meansNone(text, false) {
		projects = listed(text)
	}
	slices.Sort(projects)
	return strings.Join(projects, ",")
}

// listed returns the members of a list with brackets or quotes.
func listed(text string) (members []string) {
	text = strings.TrimSpace(text)
	if len(text) > 1 && (text[0] == '{' && text[len(text)-1] == '}' || text[0] == '[' && text[len(text)-1] == ']') {
		text = text[1 : len(text)-1]
	}
	if meansNone(text, false) {
		return nil
	}
	for _, member := range Projects(text) {
		if member = strings.Trim(member, `"'`); member != "" && !meansNone(member, true) {
			members = append(members, member)
		}
	}
	return members
}

// Key returns a text that names values, such as those that a cached figure depends on: different values have different
// texts, []string{"a b"} and []string{"a", "b"}, nil and an empty list. Pointers in lists are named by address.
func Key(values ...any) string { return fmt.Sprintf("%#v", values) }

// LettersOff is how many letters must be inserted, removed or replaced to turn one text into the other.
func LettersOff(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for k := range row {
		row[k] = k
	}
	for i, letter := range from {
		before := row[0]
		row[0] = i + 1
		for k, other := range to {
			changed := before
			if letter != other {
				changed++
			}
			before, row[k+1] = row[k+1], min(changed, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(to)]
}

// Cut shortens a text that users write: a text longer than [MostText] bytes is cut and ends with … and a hash of the
// whole text, so that different texts stay different.
func Cut(text string) string {
	if len(text) <= MostText {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	end := "…" + hex.EncodeToString(hash[:8])
	return strings.ToValidUTF8(text[:MostText-len(end)], "") + end
}

// IsCut reports whether a text is one that [Cut] has cut.
func IsCut(text string) bool {
	const end = len("…") + 16
	return len(text) > MostText-len("…") && strings.HasPrefix(text[len(text)-end:], "…")
}
