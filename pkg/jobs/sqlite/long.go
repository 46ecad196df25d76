package sqlite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// isLong reports whether the input holds ads as condor_history -long prints them: lines "Name = value", and an empty
// line, or one that begins with ***, after each ad.
func isLong(reader *bufio.Reader) bool {
	for n := 1; n <= reader.Size(); n++ {
		start, _ := reader.Peek(n) // who reads on meets the error
		if len(start) < n || start[n-1] == '[' {
			return false
		}
		if c := start[n-1]; !between(c) {
			return c == '*' || 'a' <= c|0x20 && c|0x20 <= 'z'
		}
	}
	return false
}

// longAds calls found for each ad in the long form, as the JSON object that condor_history -json prints. Lines that are
// not attributes are passed to bad.
func longAds(reader *bufio.Reader, found func(line int, object []byte) error,
	bad func(line int, problem string)) error {
	ad, began, size := map[string]json.RawMessage{}, 0, 0
	end := func() error {
		size = 0
		if len(ad) == 0 {
			return nil
		}
		object, err := json.Marshal(ad)
		if err != nil {
			return fmt.Errorf("job ad: %w", err)
		}
		clear(ad)
		return found(began, object)
	}
	lines, line := bufio.NewScanner(reader), 1
	lines.Buffer(nil, maxObject)
	for ; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if size += len(text); size > maxObject {
			return fmt.Errorf("line %d: an ad of more than %d MiB", line, maxObject>>20)
		}
		name, value, isAttribute := strings.Cut(text, " = ")
		switch {
		case text == "" || text[0] == '*':
			if failed := end(); failed != nil {
				return failed
			}
		case !isAttribute:
			bad(line, fmt.Sprintf("%.40q is not an attribute of an ad", text))
		default:
			if len(ad) == 0 {
				began = line
			}
			ad[name] = jsonOf(strings.TrimSpace(value))
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: it has more than %d MiB", line, maxObject>>20)
	case err != nil:
		return fmt.Errorf("line %d: %w", line, err)
	}
	return end()
}

// jsonOf turns a value of an ad into JSON: numbers, yes and no, and texts unchanged, and anything else as a text.
func jsonOf(value string) json.RawMessage {
	small := strings.ToLower(value)
	switch {
	case small == "true" || small == "false":
		return json.RawMessage(small)
	case small == "undefined" || small == "error":
		return json.RawMessage("null")
	case json.Valid([]byte(value)) && value[0] != '{' && value[0] != '[':
		return json.RawMessage(value)
	}
	if inner, ok := strings.CutPrefix(value, `"`); ok { // with escapes that JSON does not know
		value = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(strings.TrimSuffix(inner, `"`))
	}
	text, _ := json.Marshal(value) // never fails for a text
	return text
}
