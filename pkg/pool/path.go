package pool

import "path/filepath"

// Inside returns the path of a file within a directory, with links resolved: os.Root follows no absolute link, not even
// one that stays inside. The name itself if there are no links, the file is missing, or a link leads out.
func Inside(dir, name string) string {
	path := filepath.Join(dir, name)
	file, err := filepath.EvalSymlinks(path)
	if err != nil || file == path {
		return name
	}
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return name
	}
	if inside, err := filepath.Rel(base, file); err == nil && filepath.IsLocal(inside) {
		return inside
	}
	return name
}
