package refusal

import (
	"fmt"
	"maps"
	"slices"
)

// maxMissing bounds how many fields are named.
const maxMissing = 5

// missing returns the paths of fields that sent has and returned lacks, the first ones in order.
// A list counts as lacking if it is shorter. Items are compared where both lists have as many.
func missing(path string, sent, returned any) []string {
	var found []string
	switch s := sent.(type) {
	case map[string]any:
		r, _ := returned.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if len(found) >= maxMissing {
				break
			}
			value, kept := r[name]
			if !kept {
				found = append(found, path+"."+name)
				continue
			}
			found = append(found, missing(path+"."+name, s[name], value)...)
		}
	case []any:
		r, _ := returned.([]any)
		if len(r) < len(s) {
			return []string{path}
		}
		for i := 0; i < len(s) && len(s) == len(r) && len(found) == 0; i++ {
			found = missing(fmt.Sprintf("%s[%d]", path, i), s[i], r[i])
		}
	}
	return found[:min(len(found), maxMissing)]
}
