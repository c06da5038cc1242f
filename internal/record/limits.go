package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Total is how many bytes all annotations in Limits have together at most on one object. The API
// server accepts 256 KiB; the rest is left to others.
const Total = 160 << 10

const (
	kib = 1 << 10
	// word is for a name, a time, a version, a state or a few of them.
	word = kib
)

// Limits has the largest size of each annotation that Windlass records in, in bytes of its value, by
// the kind of object and the key. Encode and package recordlimit refuse to write more. Read accepts
// readFactor times as much.
var Limits = map[string]map[string]int{
	"Cluster": {
		v1alpha1.ChainIntentAnnotation:   word,
		v1alpha1.ChainProgressAnnotation: 96 * kib, // It names the groups that lack machines.
		v1alpha1.LastUpgradeAnnotation:   16 * kib,
		runtimev1.PendingHooksAnnotation: word,
	},
	"control plane": {
		v1alpha1.ChainStepAnnotation:      word,
		v1alpha1.InPlaceUpgradeAnnotation: 16 * kib,
	},
	"infrastructure cluster": {v1alpha1.EngineAnnotation: word},
	"MachineDeployment": {
		v1alpha1.FailedCanariesAnnotation: 64 * kib,
		v1alpha1.RolloutResumedAnnotation: word,
		v1alpha1.InPlaceUpgradeAnnotation: 16 * kib,
	},
	"MachineSet": {
		v1alpha1.UpdateDecisionsAnnotation: 48 * kib,
		v1alpha1.HandedOverAnnotation:      4 * kib,
		v1alpha1.ReturnMachinesAnnotation:  32 * kib,
		v1alpha1.NoUpdateAnnotation:        word,
		RevisionHistoryAnnotation:          word, // KeepLast shortens it.
	},
	"Machine": {
		v1alpha1.UpdatePlanAnnotation:            4 * kib,
		v1alpha1.UpdateProgressAnnotation:        32 * kib,
		v1alpha1.UpdateDecisionsAnnotation:       48 * kib,
		v1alpha1.LastUpdateAnnotation:            8 * kib,
		v1alpha1.DirtyFieldsAnnotation:           16 * kib,
		v1alpha1.UpdateOwedAnnotation:            24 * kib,
		v1alpha1.InPlaceUpgradeAnnotation:        16 * kib,
		v1alpha1.RefreshAnnotation:               4 * kib,
		v1alpha1.MovedFromAnnotation:             word,
		v1alpha1.RemediationPausedAnnotation:     word,
		v1alpha1.InPlaceUpgradeKubeletAnnotation: word,
		runtimev1.PendingHooksAnnotation:         word,
	},
}

// readFactor is for records of earlier releases, which had wider limits, and of later ones, which may
// add fields.
const readFactor = 4

// RevisionHistoryAnnotation lists the revisions that a MachineSet had before. Cluster API deprecated
// it and keeps it.
const RevisionHistoryAnnotation = "machinedeployment.clusters.x-k8s.io/revision-history"

// byKey has the limits of Limits by key: the largest of all kinds.
var byKey = func() map[string]int {
	all := map[string]int{}
	for _, limits := range Limits {
		for key, limit := range limits {
			all[key] = max(all[key], limit)
		}
	}
	return all
}()

const (
	fewerFields   = "change fewer fields of the Machine at once"
	fewerUpdaters = "let fewer Updaters take part, or give them shorter names"
	shorterNames  = "use shorter names and versions"
	shorterTexts  = "shorten the messages and names that it repeats"
)

// fixes has what makes the record in each annotation of Limits shorter.
var fixes = map[string]string{
	v1alpha1.ChainIntentAnnotation:           shorterNames,
	v1alpha1.ChainProgressAnnotation:         "let fewer groups or Machines wait at once",
	v1alpha1.LastUpgradeAnnotation:           "upgrade by fewer minors at once",
	runtimev1.PendingHooksAnnotation:         "let fewer hooks wait",
	v1alpha1.ChainStepAnnotation:             shorterNames,
	v1alpha1.InPlaceUpgradeAnnotation:        shorterTexts,
	v1alpha1.EngineAnnotation:                shorterNames,
	v1alpha1.FailedCanariesAnnotation:        "change the template, which begins another record",
	v1alpha1.RolloutResumedAnnotation:        shorterNames,
	v1alpha1.UpdateDecisionsAnnotation:       fewerFields,
	v1alpha1.HandedOverAnnotation:            shorterTexts,
	v1alpha1.ReturnMachinesAnnotation:        "use shorter names of Machines, or fewer Machines of a MachineSet",
	v1alpha1.NoUpdateAnnotation:              shorterTexts,
	RevisionHistoryAnnotation:                "delete old MachineSets",
	v1alpha1.UpdatePlanAnnotation:            fewerUpdaters,
	v1alpha1.UpdateProgressAnnotation:        fewerUpdaters,
	v1alpha1.LastUpdateAnnotation:            fewerUpdaters,
	v1alpha1.DirtyFieldsAnnotation:           "let the UpdatePolicy ignore fewer fields",
	v1alpha1.UpdateOwedAnnotation:            fewerFields,
	v1alpha1.RefreshAnnotation:               shorterTexts,
	v1alpha1.MovedFromAnnotation:             shorterNames,
	v1alpha1.RemediationPausedAnnotation:     shorterNames,
	v1alpha1.InPlaceUpgradeKubeletAnnotation: shorterNames,
}

// LimitOf returns the limit of an annotation, in bytes; 0 for one that Windlass does not record in.
func LimitOf(key string) int { return byKey[key] }

// TooLongError reports an annotation beyond its limit. Nothing was written.
type TooLongError struct {
	Key string
	// Bytes is how long it would be, Limit how long it may be.
	Bytes, Limit int
}

// Error names the annotation and both sizes.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("the annotation %s would have %d bytes, and may have %d. Fix: if something else "+
		"wrote to it, remove it; otherwise %s", e.Key, e.Bytes, e.Limit, fixes[e.Key])
}

// Check returns a *TooLongError for the first key, in their order, whose value is beyond its limit.
func Check(annotations map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if err := check(key, annotations[key]); err != nil {
			return err
		}
	}
	return nil
}

func check(key, value string) error {
	if limit := LimitOf(key); limit > 0 && len(value) > limit {
		return &TooLongError{Key: key, Bytes: len(value), Limit: limit}
	}
	return nil
}

// KeepLast returns names, separated by commas, with at most limit bytes: the last ones.
func KeepLast(names string, limit int) string {
	if len(names) > limit {
		_, names, _ = strings.Cut(names[len(names)-limit-1:], ",")
	}
	return names
}
