package snapshots

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
)

// Dir is the directory of month files and lists. It is only read, and safe for concurrent use.
type Dir struct {
	path string
	root *os.Root
}

// OpenDir opens a directory. Errors: it is missing, is not a directory, or permission is denied.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, pool.SourceError(
			"snapshot directory %s does not exist: check the setting snapshotDir, and that it is mounted", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, pool.SourceError(
			"snapshot directory %s: permission denied; give the user that runs Grafana read access", path)
	case err != nil:
		return nil, pool.SourceError("snapshot directory %s cannot be opened: %w", path, files.Bare(err))
	}
	return &Dir{path: path, root: root}, nil
}

// Path returns the directory as it was given.
func (d *Dir) Path() string { return d.path }

// Join returns the path of a file in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// Root returns the directory, for files in it. Links that lead out of it are not followed.
func (d *Dir) Root() *os.Root { return d.root }

// Names returns the base names of the directory's files, ascending.
func (d *Dir) Names() (names []string, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, pool.SourceError("snapshot directory %s cannot be listed: %w", d.path, files.Bare(err))
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// Stat describes a file, with links resolved. Errors: it is missing, no regular file, or outside of the directory.
func (d *Dir) Stat(name string) (os.FileInfo, error) {
	return files.Stat(d.root, pool.Inside(d.path, name))
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

var monthFile = regexp.MustCompile(`^gpu_state_(\d{4}-\d{2})\.([a-z]+)$`)

// MonthFile returns the name of the file of a month (YYYY-MM, in the collector's time) in a format ("db", "parquet").
func MonthFile(month, format string) string { return "gpu_state_" + month + "." + format }

// ParseMonthFile returns the month (YYYY-MM) and the format of a month file's name; ok is false for other names: copies
// such as gpu_state_2025-09_dev.db are not data.
func ParseMonthFile(name string) (month, format string, ok bool) {
	found := monthFile.FindStringSubmatch(name)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// ListFiles are the settings that name the list files of methodology section 2: plain names inside the directory; ""
// means the default, which may be missing.
type ListFiles struct {
	CHTCOwnedFile      string `json:"chtcOwnedFile"`
	HostExclusionsFile string `json:"hostExclusionsFile"`
	GPUTiersFile       string `json:"gpuTiersFile"`
	GPUNamesFile       string `json:"gpuNamesFile"`
	ProjectNamesFile   string `json:"projectNamesFile"`
}

// ListFile is one of these settings.
type ListFile struct {
	Setting, Default string
	Name             *string
	form, rule       string // a mapping in YAML, whose known key begins the form, and what it must be
	read             func(d *Dir, f ListFile, lists *pool.Lists) error
}

// All are the settings, in the order in which the files are read.
func (f *ListFiles) All() []ListFile {
	return []ListFile{
		{"chtcOwnedFile", "chtc_owned", &f.CHTCOwnedFile, "", "", (*Dir).owned},
		{"hostExclusionsFile", "masked_hosts.yaml", &f.HostExclusionsFile, "excluded_hosts: {pattern: reason}",
			"excluded_hosts must map patterns to reasons", (*Dir).exclusions},
		{"gpuTiersFile", "gpu_tiers.yaml", &f.GPUTiersFile, "tiers: {name: [patterns]}",
			"tiers must map names to lists of patterns", (*Dir).tiers},
		{"gpuNamesFile", "gpu_names.yaml", &f.GPUNamesFile, "names: {stored name: display name}", "", (*Dir).deviceNames},
		{"projectNamesFile", "project_names.yaml", &f.ProjectNamesFile,
			"projects: {name in PrioritizedProjects: [names in ChtcProjects]}",
			"projects must map each name in PrioritizedProjects to a list of names in ChtcProjects", (*Dir).projectNames},
	}
}

// Lists reads the list files. Their notices name keys that are not known.
func (d *Dir) Lists(files ListFiles) (lists pool.Lists, err error) {
	for _, f := range files.All() {
		if err := f.read(d, f, &lists); err != nil {
			return lists, err
		}
	}
	return lists, nil
}

// owned reads the machines of CHTC: one per line, # begins a comment.
func (d *Dir) owned(f ListFile, lists *pool.Lists) error {
	text, err := d.read(f)
	if err != nil {
		return err
	}
	lists.CHTCOwned = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		machine, _, _ := strings.Cut(line, "#")
		if machine = strings.TrimSpace(machine); machine != "" {
			lists.CHTCOwned[strings.ToLower(machine)] = true
		}
	}
	return nil
}

// exclusions reads patterns of machines and why they are excluded.
func (d *Dir) exclusions(f ListFile, lists *pool.Lists) error {
	entries, _, err := d.entries(f, lists)
	for _, e := range entries {
		pattern, reason := e[0], e[1]
		if strings.TrimSpace(pattern.Value) == "" {
			return pool.SourceError("hostExclusionsFile: an empty pattern would exclude every machine (line %d)", pattern.Line)
		}
		lists.Excluded = append(lists.Excluded, pool.Exclusion{Pattern: pattern.Value, Reason: reason.Value})
	}
	return err
}

// entries reads the keys and values of a list in YAML, in the order of the file, and whether there is the file.
func (d *Dir) entries(f ListFile, lists *pool.Lists) (all [][2]*yaml.Node, there bool, err error) {
	var node yaml.Node
	there, err = d.mapping(f, lists, &node)
	switch {
	case err != nil, node.Kind == 0, node.Tag == "!!null":
		return nil, there, err
	case node.Kind != yaml.MappingNode:
		return nil, there, f.wrong(&node)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		all = append(all, [2]*yaml.Node{node.Content[i], node.Content[i+1]})
	}
	return all, there, nil
}

func (f ListFile) wrong(at *yaml.Node) error {
	return pool.SourceError("%s: %s (line %d)", f.Setting, f.rule, at.Line)
}

// mapping reads a list in YAML and decodes the value of its key. there reports whether the file exists. Notices name
// other keys.
func (d *Dir) mapping(f ListFile, lists *pool.Lists, value any) (there bool, err error) {
	text, err := d.read(f)
	if err != nil || text == nil {
		return false, err
	}
	known, _, _ := strings.Cut(f.form, ":")
	var document map[string]yaml.Node
	err = yaml.Unmarshal(text, &document)
	if node, ok := document[known]; ok && err == nil {
		err = node.Decode(value)
	}
	if err != nil {
		return true, pool.SourceError("%s is not YAML of the form `%s`: %w", f.Setting, f.form, err)
	}
	for _, key := range slices.Sorted(maps.Keys(document)) {
		if key != known {
			lists.Notices = append(lists.Notices, fmt.Sprintf("%s: unknown key %s is ignored with everything below it; the "+
				"list is called %s", f.Setting, key, known))
		}
	}
	return true, nil
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

// tiers reads the classes of GPUs; without the file they are the default tiers.
func (d *Dir) tiers(f ListFile, lists *pool.Lists) error {
	entries, there, err := d.entries(f, lists)
	if err != nil || !there {
		return err
	}
	lists.Tiers = []pool.Tier{}
	for _, e := range entries {
		tier := pool.Tier{Name: strings.TrimSpace(e[0].Value)}
		if err := e[1].Decode(&tier.Patterns); err != nil || tier.Name == "" {
			return f.wrong(e[0])
		}
		if slices.ContainsFunc(tier.Patterns, pool.IsBlank) {
			return pool.SourceError("gpuTiersFile: an empty pattern would fit every GPU (line %d)", e[0].Line)
		}
		lists.Tiers = append(lists.Tiers, tier)
	}
	return nil
}

// deviceNames reads the names that devices are shown by.
func (d *Dir) deviceNames(f ListFile, lists *pool.Lists) error {
	if _, err := d.mapping(f, lists, &lists.DeviceNames); err != nil {
		return err
	}
	if n := len(lists.DeviceNames); n > pool.MostDeviceNames {
		return pool.SourceError("gpuNamesFile: at most %d names; got %d", pool.MostDeviceNames, n)
	}
	maps.DeleteFunc(lists.DeviceNames, func(stored, shown string) bool {
		return stored == "" || strings.TrimSpace(shown) == ""
	})
	return nil
}

// projectNames reads which names of projects in job ads a name with priority on machines stands for.
func (d *Dir) projectNames(f ListFile, lists *pool.Lists) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", cmp.Or(*f.Name, f.Default), err)
		}
	}()
	entries, there, err := d.entries(f, lists)
	if err != nil || !there {
		return err
	}
	lists.ProjectNames = map[string][]string{}
	for _, e := range entries {
		key, value := e[0], e[1]
		name, isText := textOf(key)
		members := value.Content
		if value.Kind == yaml.ScalarNode {
			members = []*yaml.Node{value}
		}
		_, twice := lists.ProjectNames[name]
		if twice || !isText || value.Kind != yaml.ScalarNode && value.Kind != yaml.SequenceNode {
			return f.wrong(key)
		}
		lists.ProjectNames[name] = []string{}
		for _, member := range members {
			text, isText := textOf(member)
			if !isText {
				return f.wrong(member)
			}
			lists.ProjectNames[name] = append(lists.ProjectNames[name], text)
		}
	}
	return nil
}

// textOf returns a text without blanks around it; false for anything else, and for a blank one.
func textOf(node *yaml.Node) (string, bool) {
	text := strings.TrimSpace(node.Value)
	return text, node.Kind == yaml.ScalarNode && node.Tag != "!!null" && text != ""
}

func (d *Dir) read(f ListFile) ([]byte, error) {
	setting, file := f.Setting, cmp.Or(*f.Name, f.Default)
	if file != filepath.Base(file) || file == "." || file == ".." {
		return nil, pool.BadQuery("%s %q must be a plain file name inside the snapshot directory", setting, file)
	}
	var text []byte
	info, err := d.Stat(file)
	switch {
	case file == f.Default && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && info.Size() > pool.MostList:
		return nil, pool.SourceError("%s %s has %d bytes: more than %d cannot be a list", setting, file, info.Size(),
			pool.MostList)
	case err == nil:
		text, err = d.root.ReadFile(pool.Inside(d.path, file))
	}
	if err == nil {
		text, err = plain(text)
	}
	if err != nil {
		return nil, pool.SourceError("%s %s cannot be read: %w", setting, file, files.Bare(err))
	}
	return text, nil
}
