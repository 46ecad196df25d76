package snapshots

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/pool"
)

// The lists' default names. A missing default is not an error.
const (
	DefaultCHTCOwned      = "chtc_owned"
	DefaultHostExclusions = "masked_hosts.yaml"
	DefaultGPUTiers       = "gpu_tiers.yaml"
	DefaultGPUNames       = "gpu_names.yaml"
	DefaultProjectNames   = "project_names.yaml"
)

// Lists reads the two lists of methodology section 2: chtcOwned (a machine a line, # begins a comment) and
// hostExclusions (`excluded_hosts: {pattern: reason}`), plain names inside the directory; "" means the default.
func (d *Dir) Lists(chtcOwned, hostExclusions string) (pool.Lists, error) {
	var lists pool.Lists
	text, err := d.read("chtcOwnedFile", chtcOwned, DefaultCHTCOwned)
	if err != nil {
		return lists, err
	}
	lists.CHTCOwned = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		machine, _, _ := strings.Cut(line, "#")
		if machine = strings.TrimSpace(machine); machine != "" {
			lists.CHTCOwned[strings.ToLower(machine)] = true
		}
	}
	var node yaml.Node
	lists.Notices, _, err = d.mapping("hostExclusionsFile", hostExclusions, DefaultHostExclusions,
		"excluded_hosts: {pattern: reason}", &node)
	if err != nil {
		return lists, err
	}
	if node.Kind != 0 && node.Kind != yaml.MappingNode && node.Tag != "!!null" {
		return lists, pool.SourceError("hostExclusionsFile: excluded_hosts must map patterns to reasons (line %d)", node.Line)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		pattern, reason := node.Content[i], node.Content[i+1]
		if strings.TrimSpace(pattern.Value) == "" {
			return lists, pool.SourceError("hostExclusionsFile: an empty pattern would exclude every machine (line %d)",
				pattern.Line)
		}
		lists.Excluded = append(lists.Excluded, pool.Exclusion{Pattern: pattern.Value, Reason: reason.Value})
	}
	return lists, nil
}

// mapping reads a list in YAML, a mapping whose only known key begins its form, and decodes the value of the key. there
// is false without the file. notices name the other keys.
func (d *Dir) mapping(setting, name, fallback, form string, value any) (notices []string, there bool, err error) {
	text, err := d.read(setting, name, fallback)
	if err != nil || text == nil {
		return nil, false, err
	}
	known, _, _ := strings.Cut(form, ":")
	document, err := d.parse(setting, text)
	if err == nil {
		if node, ok := document[known]; ok {
			err = node.Decode(value)
		}
	}
	if err != nil {
		return nil, true, pool.SourceError("%s is not YAML of the form `%s`: %w", setting, form, err)
	}
	for _, key := range slices.Sorted(maps.Keys(document)) {
		if key != known {
			notices = append(notices, fmt.Sprintf("%s: unknown key %s is ignored with everything below it; the list is called "+
				"%s", setting, key, known))
		}
	}
	return notices, true, nil
}

// parsed is a list in YAML with its text.
type parsed struct {
	text     []byte
	document map[string]yaml.Node
}

// parse parses a list. As long as its text stays the same, queries share the result.
func (d *Dir) parse(setting string, text []byte) (map[string]yaml.Node, error) {
	if kept, ok := d.parsed.Load(setting); ok && bytes.Equal(kept.(parsed).text, text) {
		return kept.(parsed).document, nil
	}
	var document map[string]yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	d.parsed.Store(setting, parsed{text, document})
	return document, nil
}

// plain returns a text without its byte order mark. Errors: it is not UTF-8.
func plain(text []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")):
		return nil, errors.New("it is UTF-16: save it as UTF-8")
	case !utf8.Valid(text):
		return nil, errors.New("it is not UTF-8, perhaps Latin-1 or Windows-1252: save it as UTF-8")
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

// Tiers reads the classes of GPUs (`tiers: {Flagship: [pattern, …], …}`) from a plain name inside the directory, ""
// means the default. Without the file it returns nil: the default tiers. notices name keys that are not known.
func (d *Dir) Tiers(file string) (tiers []pool.Tier, notices []string, err error) {
	var node yaml.Node
	notices, there, err := d.mapping("gpuTiersFile", file, DefaultGPUTiers, "tiers: {name: [patterns]}", &node)
	if err != nil || !there {
		return nil, nil, err
	}
	if node.Kind != 0 && node.Kind != yaml.MappingNode && node.Tag != "!!null" {
		return nil, nil, pool.SourceError("gpuTiersFile: tiers must map names to lists of patterns (line %d)", node.Line)
	}
	tiers = []pool.Tier{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		tier := pool.Tier{Name: strings.TrimSpace(node.Content[i].Value)}
		if err := node.Content[i+1].Decode(&tier.Patterns); err != nil || tier.Name == "" {
			return nil, nil, pool.SourceError("gpuTiersFile: tiers must map names to lists of patterns (line %d)",
				node.Content[i].Line)
		}
		if slices.ContainsFunc(tier.Patterns, pool.IsBlank) {
			return nil, nil, pool.SourceError("gpuTiersFile: an empty pattern would fit every GPU (line %d)",
				node.Content[i].Line)
		}
		tiers = append(tiers, tier)
	}
	return tiers, notices, nil
}

// mostDeviceNames bounds the names that each answer carries.
const mostDeviceNames = 1000

// DeviceNames reads the names that devices are shown by (`names: {stored name: display name}`) from a plain name inside
// the directory, "" means the default. Without the file it returns nil. notices name keys that are not known.
func (d *Dir) DeviceNames(file string) (names map[string]string, notices []string, err error) {
	notices, there, err := d.mapping("gpuNamesFile", file, DefaultGPUNames, "names: {stored name: display name}", &names)
	if err != nil || !there {
		return nil, nil, err
	}
	if n := len(names); n > mostDeviceNames {
		return nil, nil, pool.SourceError("gpuNamesFile: at most %d names; got %d", mostDeviceNames, n)
	}
	maps.DeleteFunc(names, func(stored, shown string) bool { return stored == "" || strings.TrimSpace(shown) == "" })
	return names, notices, nil
}

// ProjectNames reads which names of projects in job ads a name with priority on machines stands for (`projects: {name
// in PrioritizedProjects: [names in ChtcProjects]}`) from a plain name inside the directory, "" means the default.
// Without the file it returns nil. notices name keys that are not known.
func (d *Dir) ProjectNames(file string) (names map[string][]string, notices []string, err error) {
	const setting = "projectNamesFile"
	var node yaml.Node
	notices, there, err := d.mapping(setting, file, DefaultProjectNames,
		"projects: {name in PrioritizedProjects: [names in ChtcProjects]}", &node)
	file = cmp.Or(file, DefaultProjectNames)
	if err != nil || !there {
		return nil, nil, wrapped(file, err)
	}
	wrong := func(at *yaml.Node) error {
		return pool.SourceError("%s: %s: projects must map each name in PrioritizedProjects to a list of names in "+
			"ChtcProjects (line %d)", setting, file, at.Line)
	}
	names = map[string][]string{}
	if node.Kind == 0 || node.Tag == "!!null" {
		return names, notices, nil
	}
	if node.Kind != yaml.MappingNode {
		return nil, nil, wrong(&node)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name, isText := textOf(key)
		members := value.Content
		if value.Kind == yaml.ScalarNode {
			members = []*yaml.Node{value}
		}
		if _, twice := names[name]; twice || !isText || value.Kind != yaml.ScalarNode && value.Kind != yaml.SequenceNode {
			return nil, nil, wrong(key)
		}
		names[name] = []string{}
		for _, member := range members {
			text, isText := textOf(member)
			if !isText {
				return nil, nil, wrong(member)
			}
			names[name] = append(names[name], text)
		}
	}
	return names, notices, nil
}

// wrapped is an error about a file; nil if there is none.
func wrapped(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// textOf returns a text without blanks around it; false for anything else, and for a blank one.
func textOf(node *yaml.Node) (string, bool) {
	text := strings.TrimSpace(node.Value)
	return text, node.Kind == yaml.ScalarNode && node.Tag != "!!null" && text != ""
}

// maxList bounds a list file: the longest known one has a hundred lines.
const maxList = 4 << 20

func (d *Dir) read(setting, name, fallback string) ([]byte, error) {
	file := cmp.Or(name, fallback)
	if file != filepath.Base(file) || file == "." || file == ".." {
		return nil, pool.BadQuery("%s %q must be a plain file name inside the snapshot directory", setting, name)
	}
	var text []byte
	info, err := d.Stat(file)
	switch {
	case file == fallback && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && info.Size() > maxList:
		return nil, pool.SourceError("%s %s has %d bytes: more than %d cannot be a list", setting, file, info.Size(), maxList)
	case err == nil:
		text, err = d.root.ReadFile(pool.Inside(d.path, file))
	}
	if err == nil {
		text, err = plain(text)
	}
	if err != nil {
		return nil, pool.SourceError("%s %s cannot be read: %w", setting, file, Bare(err))
	}
	return text, nil
}
