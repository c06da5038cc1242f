package differential

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// kver is a Kubernetes version as the generator makes it and the oracle reads it. It shares no code with the packages
// that are compared.
type kver struct {
	major, minor, patch int
	// pre is "", "alpha.N", "beta.N" or "rc.N".
	pre string
	// build is what stands after the plus sign.
	build string
	// bare leaves out the leading v.
	bare bool
}

func (k kver) String() string {
	s := fmt.Sprintf("%d.%d.%d", k.major, k.minor, k.patch)
	if k.pre != "" {
		s += "-" + k.pre
	}
	if k.build != "" {
		s += "+" + k.build
	}
	if k.bare {
		return s
	}
	return "v" + s
}

// canon is k with its v, in which form kvers are the same version exactly when they are ==.
func (k kver) canon() kver {
	k.bare = false
	return k
}

func (k kver) release() kver {
	k.build, k.bare = "", false
	return k
}

// lag is how many minors k is behind ahead; negative when it is newer. It means nothing across majors.
func (k kver) lag(ahead kver) int { return ahead.minor - k.minor }

// relation is the outcome of compare.
type relation int

const (
	older     relation = -1
	same      relation = 0
	newer     relation = 1
	unordered relation = 2
)

// compare orders two versions: semver, then builds, of which different words have no order. RKE2 and K3s
// count their builds within a word.
func compare(a, b kver) relation {
	count := strings.NewReplacer("rke2r", "rke2r.", "k3s", "k3s.")
	a.build, b.build = count.Replace(a.build), count.Replace(b.build)
	return compareWords(a, b)
}

// compareWords is compare without the knowledge of any distribution, as upstream orders builds.
func compareWords(a, b kver) relation {
	if c := cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor), cmp.Compare(a.patch, b.patch), comparePre(a.pre, b.pre)); c != 0 {
		return relation(c)
	}
	as, bs := strings.FieldsFunc(a.build, isDot), strings.FieldsFunc(b.build, isDot)
	for i := range min(len(as), len(bs)) {
		an, aErr := strconv.Atoi(as[i])
		bn, bErr := strconv.Atoi(bs[i])
		switch {
		case as[i] == bs[i]:
			continue
		case aErr == nil && bErr == nil:
			return relation(cmp.Compare(an, bn))
		case aErr == nil:
			return older
		case bErr == nil:
			return newer
		default:
			return unordered
		}
	}
	return relation(cmp.Compare(len(as), len(bs)))
}

func isDot(r rune) bool { return r == '.' }

func comparePre(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	aWord, aNumber, _ := strings.Cut(a, ".")
	bWord, bNumber, _ := strings.Cut(b, ".")
	an, _ := strconv.Atoi(aNumber)
	bn, _ := strconv.Atoi(bNumber)
	return cmp.Or(strings.Compare(aWord, bWord), cmp.Compare(an, bn))
}

func strs(list []kver) []string {
	if list == nil {
		return nil
	}
	texts := make([]string, 0, len(list))
	for _, k := range list {
		texts = append(texts, k.String())
	}
	return texts
}

func canons(list []kver) []kver {
	if list == nil {
		return nil
	}
	cs := make([]kver, 0, len(list))
	for _, k := range list {
		cs = append(cs, k.canon())
	}
	return cs
}
