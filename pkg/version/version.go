// Package version holds Kubernetes versions as values: parsed once at the edge, ordered the way Cluster API orders them,
// comparable with ==, and usable as map keys. It also holds the version skew table.
//
// Everything here is pure and safe for concurrent use.
package version

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
)

// MaxLength is the longest version that Parse accepts, in bytes: the bound that Cluster API's own API types set.
const MaxLength = 256

// Version is a Kubernetes version such as v1.31.2, v1.32.0-rc.1 or v1.31.2+rke2r1. The zero Version means "none".
//
// Two Versions are == exactly when their normalised strings are the same.
type Version struct {
	major, minor, patch uint32
	// suffix is what follows the patch: "-" and a pre-release, "+" and a build, both or nothing. See pre
	// and build.
	suffix string
}

// Minor is a Kubernetes minor release such as v1.31. The major takes part in every comparison.
type Minor struct {
	Major, Minor uint32
}

// ParseError says which input is not a Kubernetes version, and why.
type ParseError struct {
	// Input is what was given, cut to MaxLength bytes.
	Input string
	// Problem says what is wrong with it and what would be right.
	Problem string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%q is not a Kubernetes version: %s", e.Input, e.Problem)
}

// Parse reads a version with or without its leading "v"; the Version it returns always has one. Major, minor and patch
// must all be there, because guessing a patch release would choose a machine image nobody asked for.
// The error is a *ParseError.
func Parse(s string) (Version, error) {
	if len(s) > MaxLength {
		return Version{}, &ParseError{Input: s[:MaxLength], Problem: fmt.Sprintf("it is longer than %d bytes", MaxLength)}
	}
	bare := strings.TrimPrefix(s, "v")
	if v, ok := parseNumbers(bare); ok {
		return v, nil
	}
	parsed, err := semver.Parse(bare)
	if err != nil {
		return Version{}, &ParseError{Input: s, Problem: describeSyntax(bare, err)}
	}
	if parsed.Major > math.MaxUint32 || parsed.Minor > math.MaxUint32 || parsed.Patch > math.MaxUint32 {
		return Version{}, &ParseError{Input: s, Problem: "its numbers are out of range"}
	}
	v := Version{major: uint32(parsed.Major), minor: uint32(parsed.Minor), patch: uint32(parsed.Patch)}
	if at := strings.IndexAny(bare, "-+"); at >= 0 {
		v.suffix = bare[at:]
	}
	if v.IsZero() {
		return Version{}, &ParseError{Input: s, Problem: "there is no such release"}
	}
	return v, nil
}

// parseNumbers reads the plain form, such as 1.31.2, which nearly all versions have. It leaves everything else, also what
// is wrong, to the semver library.
func parseNumbers(bare string) (v Version, ok bool) {
	major, rest, _ := strings.Cut(bare, ".")
	minor, patch, _ := strings.Cut(rest, ".")
	var okMajor, okMinor, okPatch bool
	v.major, okMajor = parseNumber(major)
	v.minor, okMinor = parseNumber(minor)
	v.patch, okPatch = parseNumber(patch)
	return v, okMajor && okMinor && okPatch && !v.IsZero()
}

// parseNumber reads a number of up to nine digits, which fits in 32 bits, without a leading zero.
func parseNumber(s string) (n uint32, ok bool) {
	if s == "" || len(s) > 9 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint32(s[i]-'0')
	}
	return n, true
}

func describeSyntax(bare string, err error) string {
	core, _, _ := strings.Cut(bare, "+")
	core, _, _ = strings.Cut(core, "-")
	switch dots := strings.Count(core, "."); {
	case bare == "":
		return "it is empty. Fix: write all three numbers, such as v1.31.2"
	case dots < 2:
		return "write all three numbers, such as v1.31.2"
	case dots > 2:
		return "it has more than three numbers. Fix: write v1.31.2, or put a build after a plus sign, such as v1.31.2+build.1"
	default:
		return strings.ToLower(err.Error())
	}
}

// MustParse is Parse for constants and tests; it panics on an error.
func MustParse(s string) Version {
	v, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return v
}

// ItemError says which item of a list could not be parsed.
type ItemError struct {
	// Index counts from 0.
	Index int
	Err   error
}

func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Index, e.Err) }
func (e *ItemError) Unwrap() error { return e.Err }

// ParseList parses every item, in order. The error is an *ItemError around a *ParseError, for the first bad item.
func ParseList(items []string) ([]Version, error) {
	versions := make([]Version, 0, len(items))
	for i, item := range items {
		v, err := Parse(item)
		if err != nil {
			return nil, &ItemError{Index: i, Err: err}
		}
		versions = append(versions, v)
	}
	return versions, nil
}

// String returns the normalised form, with the leading "v"; the zero Version gives "".
func (v Version) String() string {
	if v.IsZero() {
		return ""
	}
	b := make([]byte, 0, 16+len(v.suffix))
	b = append(b, 'v')
	b = strconv.AppendUint(b, uint64(v.major), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(v.minor), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(v.patch), 10)
	return string(append(b, v.suffix...))
}

// IsZero reports whether v is the zero Version, which stands for "none" and is older than every other.
func (v Version) IsZero() bool { return v == Version{} }

// Equal reports whether v == o; it is there for packages that compare by method, such as go-cmp.
func (v Version) Equal(o Version) bool { return v == o }

// Minor returns the minor release that v belongs to.
func (v Version) Minor() Minor { return Minor{Major: v.major, Minor: v.minor} }

// SameRelease reports whether v and o are of one release of Kubernetes: they differ in nothing but the
// build of a distribution.
func (v Version) SameRelease(o Version) bool {
	return v.SamePatch(o) && v.pre() == o.pre()
}

// SamePatch reports whether v and o have the same major, minor and patch, whatever their pre-releases and builds.
func (v Version) SamePatch(o Version) bool {
	return v.major == o.major && v.minor == o.minor && v.patch == o.patch
}

// MarshalText implements encoding.TextMarshaler, and with it JSON and YAML.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; an empty text gives the zero Version.
func (v *Version) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*v = Version{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

// String returns the short form, such as v1.31.
func (m Minor) String() string {
	return "v" + strconv.FormatUint(uint64(m.Major), 10) + "." + strconv.FormatUint(uint64(m.Minor), 10)
}

// ParseMinor reads a minor release such as v1.31 or 1.31. The error is a *ParseError.
func ParseMinor(s string) (Minor, error) {
	if len(s) > MaxLength {
		return Minor{}, &ParseError{Input: s[:MaxLength], Problem: fmt.Sprintf("it is longer than %d bytes", MaxLength)}
	}
	bare := strings.TrimPrefix(s, "v")
	if strings.Count(bare, ".") != 1 || strings.ContainsAny(bare, "+-") {
		return Minor{}, &ParseError{Input: s, Problem: "write a minor release with two numbers, such as v1.31"}
	}
	// A minor has the syntax of a version that lacks its patch, so the version's rules for numbers hold for it.
	v, err := Parse(bare + ".0")
	if err != nil {
		return Minor{}, &ParseError{Input: s, Problem: "write a minor release with two numbers, such as v1.31"}
	}
	return v.Minor(), nil
}

// MarshalText writes the minor as String does.
func (m Minor) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what ParseMinor does.
func (m *Minor) UnmarshalText(text []byte) error {
	parsed, err := ParseMinor(string(text))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

// Next returns the following minor of the same major.
func (m Minor) Next() Minor {
	m.Minor++
	return m
}

// Before reports whether m is an older minor release than o.
func (m Minor) Before(o Minor) bool {
	if m.Major != o.Major {
		return m.Major < o.Major
	}
	return m.Minor < o.Minor
}

// Lag returns how many minors m is behind ahead. It returns false when the two are of different majors, between which
// no distance is defined, and when m is the newer one.
func (m Minor) Lag(ahead Minor) (minors uint32, ok bool) {
	if m.Major != ahead.Major || m.Minor > ahead.Minor {
		return 0, false
	}
	return ahead.Minor - m.Minor, true
}
