package plugin

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// asDeclared gives the fields of a JSON object the types that a struct declares. Provisioning with variables of the
// environment, such as sliceMinutes: $SLICE, hands numbers and booleans over as texts, and texts of digits as numbers.
// An empty text in place of a number or boolean is the default. Errors come from the JSON.
func asDeclared(object []byte, declared reflect.Type) ([]byte, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(object, &given); err != nil {
		return nil, err
	}
	for i := range declared.NumField() {
		field := declared.Field(i)
		name := field.Tag.Get("json")
		value, there := given[name]
		if !there {
			continue
		}
		var text string
		isText := json.Unmarshal(value, &text) == nil && value[0] == '"'
		text = strings.TrimSpace(text)
		switch kind := field.Type.Kind(); {
		case kind == reflect.Struct && value[0] == '{':
			inner, err := asDeclared(value, field.Type)
			if err != nil {
				return nil, err
			}
			given[name] = inner
		case kind == reflect.String && strings.ContainsAny(string(value[:1]), "-0123456789"):
			given[name] = []byte(strconv.Quote(string(value)))
		case isText && (kind == reflect.Int || kind == reflect.Bool):
			if given[name] = []byte(text); text == "" {
				delete(given, name)
			} else if !json.Valid(given[name]) {
				given[name] = value // its error names the value
			}
		}
	}
	return json.Marshal(given)
}
