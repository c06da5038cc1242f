package request

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windlass-dev/windlass/api/v1alpha1"
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

// ParseOption reads an option, which is split at the first equals sign. The error says what would fix it.
func ParseOption(text string) (Option, error) {
	if len(text) > maxOption {
		return Option{}, fmt.Errorf("it is longer than %d bytes", maxOption)
	}
	method, value, found := strings.Cut(text, "=")
	if !found {
		return Option{}, fmt.Errorf("%q is not an option: write channel=, revision=, localPath= or version= and a value, such as version=v1.31.2", text)
	}
	o := Option{Method: Method(method), Value: value}
	var err error
	switch o.Method {
	case Channel:
		o.minor, err = parseChannel(value)
	case Revision:
		err = checkRevision(value)
	case LocalPath:
		err = checkLocalPath(value)
	case Version:
		if o.exact, err = version.Parse(value); err != nil {
			err = fmt.Errorf("the version: %w", err)
		}
		o.minor = o.exact.Minor()
	default:
		err = fmt.Errorf("%q is not a method: write channel=, revision=, localPath= or version= and a value, such as version=v1.31.2", method)
	}
	if err != nil {
		return Option{}, err
	}
	return o, nil
}

// unknownRecord is the message about a running upgrade of which a newer release has recorded something
// that this one does not know.
const unknownRecord = "the recorded %s of the upgrade is unknown to this release of Windlass. " +
	"Fix: upgrade Windlass to the release that recorded it, or check how far the machine is, " +
	"then remove the annotation windlass.dev/in-place-upgrade"

// isUnknown reports whether an option was begun by a newer release: this one begins only what it can
// read.
func isUnknown(option string) bool {
	_, err := ParseOption(option)
	return err != nil
}

// parseChannel returns the minor that a channel's track names; zero if it names none.
func parseChannel(channel string) (version.Minor, error) {
	if !channelSyntax.MatchString(channel) {
		return version.Minor{}, fmt.Errorf("%q is not a channel: write channel=TRACK/RISK, such as channel=1.31-classic/stable", channel)
	}
	m := trackMinor.FindStringSubmatch(channel)
	if m == nil {
		return version.Minor{}, nil
	}
	minor, err := version.ParseMinor(m[1])
	if err != nil {
		return version.Minor{}, fmt.Errorf("the track of channel %q: %w", channel, err)
	}
	return minor, nil
}

func checkRevision(revision string) error {
	if !revisionSyntax.MatchString(revision) {
		return fmt.Errorf("%q is not a revision: write revision= and a number above 0, such as revision=1234", revision)
	}
	return nil
}

func checkLocalPath(file string) error {
	if !path.IsAbs(file) || path.Clean(file) != file || file == "/" || strings.ContainsFunc(file, unicode.IsControl) {
		return fmt.Errorf("%q is not a file on the machine: write localPath= and an absolute path without . or .., such as localPath=/opt/k8s.snap", file)
	}
	return nil
}

// String returns the option as it is written.
func (o Option) String() string { return string(o.Method) + "=" + o.Value }

// Exact returns the Kubernetes version that the option names, where it does.
func (o Option) Exact() (version.Version, bool) { return o.exact, !o.exact.IsZero() }

// Minor returns the minor that the option names, where it does: a revision and a file do not.
func (o Option) Minor() (version.Minor, bool) { return o.minor, o.minor != version.Minor{} }

// CheckPrefix returns an error for a prefix that begins no valid key of an annotation. It must not be
// empty.
func CheckPrefix(prefix string) error {
	if !strings.Contains(prefix, "/") {
		return fmt.Errorf("the prefix %q of annotations has no domain; write one, and a slash, as in %s",
			prefix, v1alpha1.DefaultInPlaceUpgradePrefix)
	}
	// The longest of the keys that begin with it.
	key := prefix + v1alpha1.InPlaceUpgradeLastFailedAttemptAt
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("the prefix %q of annotations makes keys that are none, such as %s: %s",
			prefix, key, strings.Join(problems, "; "))
	}
	return nil
}
