package engine

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// Keys are the keys of the annotations of the wire format.
type Keys struct{ To, Status, Release, ChangeID, LastFailed string }

// NewKeys returns the keys that begin with a prefix.
func NewKeys(prefix string) Keys {
	return Keys{
		To: prefix + v1alpha1.InPlaceUpgradeTo, Status: prefix + v1alpha1.InPlaceUpgradeStatus, Release: prefix + v1alpha1.InPlaceUpgradeRelease,
		ChangeID: prefix + v1alpha1.InPlaceUpgradeChangeID, LastFailed: prefix + v1alpha1.InPlaceUpgradeLastFailedAttemptAt,
	}
}

// all are those keys, those that only this project writes and reads, and those of protection.
func (k Keys) all() []string {
	return append([]string{
		BlockMoveAnnotation, k.To, k.Status, k.Release, k.ChangeID, k.LastFailed, v1alpha1.InPlaceUpgradeAnnotation, v1alpha1.UpdateRetryAnnotation, v1alpha1.InPlaceUpgradeDrainAnnotation,
	}, remediationKeys...)
}

// Marked reports whether an object with these annotations has ever been asked for an upgrade, or is protected by this project.
func (k Keys) Marked(annotations map[string]string) bool {
	if _, protected := annotations[v1alpha1.RemediationPausedAnnotation]; protected || blocksMove(annotations) {
		return true
	}
	for _, key := range []string{k.To, k.Status, k.Release, k.ChangeID, v1alpha1.InPlaceUpgradeAnnotation} {
		if annotations[key] != "" {
			return true
		}
	}
	return false
}

// Same reports whether two sets of annotations say the same about upgrades.
func (k Keys) Same(a, b map[string]string) bool {
	return k.SameForGroup(a, b) && a[v1alpha1.InPlaceUpgradeAnnotation] == b[v1alpha1.InPlaceUpgradeAnnotation]
}

// SameForGroup is Same for what the group of a Machine decides by: not how far the upgrade of the Machine has come.
func (k Keys) SameForGroup(a, b map[string]string) bool {
	for _, key := range k.all() {
		before, had := a[key]
		after, has := b[key]
		if had != has || before != after && key != v1alpha1.InPlaceUpgradeAnnotation {
			return false
		}
	}
	return true
}

// AsksGroup reports whether there may be something to do for a group of machines with these annotations.
func (k Keys) AsksGroup(annotations map[string]string) bool {
	return annotations[k.To] != "" || annotations[k.Release] != "" || annotations[v1alpha1.InPlaceUpgradeAnnotation] != ""
}

func (k Keys) marks(annotations map[string]string) request.Marks {
	return request.Marks{
		To: annotations[k.To], Status: request.Status(annotations[k.Status]), Release: annotations[k.Release],
		ChangeID: annotations[k.ChangeID], LastFailed: annotations[k.LastFailed],
	}
}

// encode returns the annotations that say all this; none is empty.
func encode[R request.Upgrade | request.Record](k Keys, recorded request.Recorded[R]) (map[string]string, error) {
	m := recorded.Marks
	out := map[string]string{k.To: m.To, k.Status: string(m.Status), k.Release: m.Release, k.ChangeID: m.ChangeID, k.LastFailed: m.LastFailed}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	if recorded.Record != nil {
		data, err := json.Marshal(recorded.Record)
		if err != nil {
			return nil, fmt.Errorf("encoding the annotation %s: %w", v1alpha1.InPlaceUpgradeAnnotation, err)
		}
		out[v1alpha1.InPlaceUpgradeAnnotation] = string(data)
	}
	if recorded.Retry {
		out[v1alpha1.UpdateRetryAnnotation] = ""
	}
	return out, nil
}

// difference is what leads from one record to another. annotations hold the first one, and what a
// newer release has added to it, which is kept. A retry is a person's to set: it is only ever removed.
func difference[R request.Upgrade | request.Record](
	k Keys, annotations map[string]string, from, to request.Recorded[R],
) (Patch, error) {
	before, err := encode(k, from)
	if err != nil {
		return nil, err
	}
	after, err := encode(k, to)
	if err != nil {
		return nil, err
	}
	p := Patch{}
	for key := range before {
		if _, kept := after[key]; !kept {
			p[key] = nil
		}
	}
	for key, value := range after {
		if old, had := before[key]; !had || old != value {
			p[key] = &value
		}
	}
	if p[v1alpha1.InPlaceUpgradeAnnotation] != nil {
		return p, p.set(annotations, v1alpha1.InPlaceUpgradeAnnotation, to.Record)
	}
	return p, nil
}

// readRecord decodes the recorded upgrade into a new T; nil where there is none, or where why it cannot be read is returned.
func readRecord[T any](annotations map[string]string) (record *T, unreadable string) {
	text, ok := annotations[v1alpha1.InPlaceUpgradeAnnotation]
	if !ok {
		return nil, ""
	}
	record = new(T)
	if err := untrusted.Annotation.Unmarshal([]byte(text), record); err != nil {
		return nil, err.Error()
	}
	return record, ""
}
