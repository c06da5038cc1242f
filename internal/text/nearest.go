package text

import "strconv"

// maxTypos is how many letters a name may differ by to be offered in place of another.
const maxTypos = 2

// distance returns how many letters have to be inserted, deleted, changed or swapped with the next
// one to make a name of another. Names are of ASCII.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := last[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			row[j] = min(changed, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// DescribeNearest offers the name of candidates that is nearest to a wrong one; empty if none is
// near, or if the name is among them.
func DescribeNearest(wrong string, candidates []string) string {
	best, least := "", min(maxTypos, len(wrong)-1)+1
	for _, c := range candidates {
		if c == wrong {
			return ""
		}
		if len(c)-len(wrong) > maxTypos || len(wrong)-len(c) > maxTypos {
			continue
		}
		if d := distance(wrong, c); d < least {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; the nearest name is " + strconv.Quote(best)
}
