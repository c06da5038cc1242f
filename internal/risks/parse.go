package risks

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// Bounds of a file.
const (
	// MaxBytes bounds a file, MaxRisks the risks in it, and MaxRows the rows of etcdVersions.
	MaxBytes = 256 << 10
	MaxRisks = 256
	MaxRows  = 512
	// MaxIDBytes bounds an id, MaxTextBytes every other text.
	MaxIDBytes   = 63
	MaxTextBytes = 512
	// maxItems bounds every other list.
	maxItems = 32
)

var (
	fileLimits = untrusted.Limits{Bytes: MaxBytes, Depth: 12, Nodes: 20_000}
	idForm     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	sourceForm = regexp.MustCompile(`^https://[[:graph:]]+$`)
	family     = strings.SplitAfter(APIVersion, "/")[0]
)

// Parse reads a file in YAML or JSON. It refuses what it does not know, because a matcher of a
// newer format that was ignored would hide a risk or match too much.
func Parse(data []byte) (*Set, error) {
	// The version counts before everything else: the fields of a newer one are not known.
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := fileLimits.UnmarshalYAML(data, &header); err != nil {
		return nil, fmt.Errorf("reading known risks: %w", err)
	}
	if err := checkFormat(header.APIVersion, header.Kind); err != nil {
		return nil, err
	}
	set := &Set{}
	if err := fileLimits.UnmarshalYAMLStrict(data, set); err != nil {
		// An unknown field may be as long as the file.
		return nil, fmt.Errorf("reading known risks: %s. Fix: correct it, or update windlass "+
			"if the file is for a newer release", text.Bound(err.Error(), MaxTextBytes))
	}
	if err := set.check(); err != nil {
		return nil, fmt.Errorf("reading known risks: %w", err)
	}
	return set, nil
}

func checkFormat(apiVersion, kind string) error {
	switch {
	case apiVersion == APIVersion && kind == FileKind:
		return nil
	case strings.HasPrefix(apiVersion, family) && apiVersion != APIVersion:
		return fmt.Errorf("known risks: this release reads %s, and the file has apiVersion %.64q. "+
			"Fix: update windlass, or use a file of %s", APIVersion, apiVersion, APIVersion)
	default:
		return fmt.Errorf("known risks: the file has apiVersion %.64q and kind %.64q. "+
			"Fix: use a file with %s and %s",
			apiVersion, kind, APIVersion, FileKind)
	}
}

func (s *Set) check() error {
	switch {
	case s.Revision == "" || len(s.Revision) > MaxIDBytes:
		return fmt.Errorf("revision must have 1 to %d bytes. Fix: write the date of the last change",
			MaxIDBytes)
	case len(s.Risks) > MaxRisks:
		return fmt.Errorf("it has %d risks, and %d is the most. Fix: remove some",
			len(s.Risks), MaxRisks)
	case len(s.EtcdVersions) > MaxRows:
		return fmt.Errorf("it has %d rows of etcdVersions, and %d is the most. Fix: join some",
			len(s.EtcdVersions), MaxRows)
	}
	for i, row := range s.EtcdVersions {
		if err := row.check(); err != nil {
			return fmt.Errorf("etcdVersions[%d]: %w", i, err)
		}
	}
	seen := map[string]bool{}
	for i, r := range s.Risks {
		if seen[r.ID] {
			return fmt.Errorf("risks[%d]: the id %q occurs before. Fix: give each risk an id of its own",
				i, r.ID)
		}
		seen[r.ID] = true
		if err := r.check(); err != nil {
			return fmt.Errorf("risks[%d] %.63q: %w", i, r.ID, err)
		}
	}
	return nil
}

func (e EtcdVersion) check() error {
	if e.Etcd.IsZero() || e.Kubernetes == (Range{}) {
		return errors.New("etcd and kubernetes are needed")
	}
	if err := checkOneOf("distribution", e.Distribution, distributions); err != nil {
		return err
	}
	return e.Kubernetes.check()
}

func (r Risk) check() error {
	if !idForm.MatchString(r.ID) || len(r.ID) > MaxIDBytes {
		return fmt.Errorf("id must be lower case letters, digits and hyphens, at most %d",
			MaxIDBytes)
	}
	if err := checkOneOf("kind", r.Kind, []Kind{Floor, Block, Warning}); err != nil {
		return err
	}
	severities := []Severity{Critical, Outage, Degradation}
	if err := checkOneOf("severity", r.Severity, severities); err != nil {
		return err
	}
	if r.Kind == Warning && r.Condition == "" {
		return errors.New("condition is empty. Fix: say whom the warning concerns")
	}
	if err := r.checkTexts(); err != nil {
		return err
	}
	if len(r.Match) == 0 || len(r.Match) > maxItems {
		return fmt.Errorf("match must have 1 to %d items", maxItems)
	}
	for i, m := range r.Match {
		if err := m.check(); err != nil {
			return fmt.Errorf("match[%d]: %w", i, err)
		}
	}
	return nil
}

func (r Risk) checkTexts() error {
	longest := max(len(r.Summary), len(r.Fix), len(r.Condition))
	if r.Summary == "" || r.Fix == "" || longest > MaxTextBytes {
		return fmt.Errorf("summary and fix must have 1 to %d bytes, condition at most that",
			MaxTextBytes)
	}
	if len(r.Sources) == 0 || max(len(r.Sources), len(r.FixedIn)) > maxItems {
		return fmt.Errorf("sources must have 1 to %d items, fixedIn at most %d", maxItems, maxItems)
	}
	for _, source := range r.Sources {
		if !sourceForm.MatchString(source) || len(source) > MaxTextBytes {
			return fmt.Errorf("each of sources must be an https URL of at most %d bytes",
				MaxTextBytes)
		}
	}
	return nil
}

func (m Matcher) check() error {
	if len(m.To) == 0 ||
		max(len(m.To), len(m.From), len(m.Oldest), len(m.Distributions)) > maxItems {
		return fmt.Errorf("to must have 1 to %d items, from, oldest and distributions at most %d",
			maxItems, maxItems)
	}
	for _, d := range m.Distributions {
		if err := checkOneOf("distributions", d, distributions); err != nil {
			return err
		}
	}
	versions := slices.Concat(m.To, m.From, m.Oldest)
	if slices.Contains(versions, Range{}) {
		return errors.New("each range needs atLeast, before, or both")
	}
	for _, r := range append(versions, m.Etcd.From, m.Etcd.To) {
		if err := r.check(); err != nil {
			return err
		}
	}
	if err := checkOneOf("cluster", m.Cluster, clusterFacts); err != nil {
		return err
	}
	return m.ControlPlane.check()
}

func (c ControlPlaneMatcher) check() error {
	topologies := []EtcdTopology{"", Stacked, External}
	if err := checkOneOf("controlPlane.etcd", c.Etcd, topologies); err != nil {
		return err
	}
	if min(c.MinMachines, c.MaxMachines) < 0 || c.MaxMachines > 0 && c.MaxMachines < c.MinMachines {
		return fmt.Errorf("controlPlane: no number is from minMachines %d to maxMachines %d",
			c.MinMachines, c.MaxMachines)
	}
	return nil
}

func checkOneOf[T ~string](field string, value T, allowed []T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %.64q. Fix: use one of %q, or update windlass "+
		"if the file is for a newer release", field, value, allowed)
}
