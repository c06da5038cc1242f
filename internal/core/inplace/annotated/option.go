package annotated

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Method is how an option says what to install.
type Method string

// The methods, as they are written.
const (
	Channel   Method = "channel"
	Revision  Method = "revision"
	LocalPath Method = "localPath"
	Version   Method = "version"
)

// Option is what an annotation asks for.
type Option struct {
	Method Method
	Value  string
	// exact is set for Version, and minor for whatever names its minor.
	exact version.Version
	minor version.Minor
}

// maxOption bounds an option in bytes. File names on Linux are shorter.
const maxOption = 4096

var (
	channelSyntax  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*){0,2}$`)
	revisionSyntax = regexp.MustCompile(`^x?[1-9][0-9]{0,17}$`)
	trackMinor     = regexp.MustCompile(`^(\d{1,9}\.\d{1,9})([-/].*)?$`)
)

// ParseOption reads an option, which is split at the first equals sign. The error says what would mend it.
func ParseOption(text string) (Option, error) {
	if len(text) > maxOption {
		return Option{}, fmt.Errorf("it is longer than %d bytes", maxOption)
	}
	method, value, found := strings.Cut(text, "=")
	o := Option{Method: Method(method), Value: value}
	if !found {
		return Option{}, fmt.Errorf("%q is not an option: write channel=, revision=, localPath= or version= and a value, such as version=v1.31.2", text)
	}
	switch o.Method {
	case Channel:
		if !channelSyntax.MatchString(value) {
			return Option{}, fmt.Errorf("%q is not a channel: write channel=TRACK/RISK, such as channel=1.31-classic/stable", value)
		}
		if m := trackMinor.FindStringSubmatch(value); m != nil {
			minor, err := version.ParseMinor(m[1])
			if err != nil {
				return Option{}, fmt.Errorf("the track of channel %q: %w", value, err)
			}
			o.minor = minor
		}
	case Revision:
		if !revisionSyntax.MatchString(value) {
			return Option{}, fmt.Errorf("%q is not a revision: write revision= and a number above 0, such as revision=1234", value)
		}
	case LocalPath:
		if !path.IsAbs(value) || path.Clean(value) != value || value == "/" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
			return Option{}, fmt.Errorf("%q is not a file on the machine: write localPath= and an absolute path without . or .., such as localPath=/opt/k8s.snap", value)
		}
	case Version:
		exact, err := version.Parse(value)
		if err != nil {
			return Option{}, fmt.Errorf("the version: %w", err)
		}
		o.exact, o.minor = exact, exact.Minor()
	default:
		return Option{}, fmt.Errorf("%q is not a method: write channel=, revision=, localPath= or version= and a value, such as version=v1.31.2", method)
	}
	return o, nil
}

// String returns the option as it is written.
func (o Option) String() string { return string(o.Method) + "=" + o.Value }

// Exact returns the Kubernetes version that the option names, where it does.
func (o Option) Exact() (version.Version, bool) { return o.exact, !o.exact.IsZero() }

// Minor returns the minor that the option names, where it does: a revision and a file do not.
func (o Option) Minor() (version.Minor, bool) { return o.minor, o.minor != version.Minor{} }
