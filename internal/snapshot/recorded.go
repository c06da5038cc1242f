package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/recordjson"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/pkg/version"
)

// ReadRecorded reads what a Cluster has recorded about its chain from its annotations. The error is a *FieldError.
func ReadRecorded(cluster *clusterv1.Cluster) (chain.Recorded, error) {
	r := readHooks(cluster)
	if err := readJSON(cluster, v1alpha1.ChainIntentAnnotation, &r.Intent); err != nil {
		return chain.Recorded{}, err
	}
	if err := readJSON(cluster, v1alpha1.ChainProgressAnnotation, &r.Chain); err != nil {
		return chain.Recorded{}, err
	}
	step := cluster.GetAnnotations()[clusterv1.ClusterTopologyUpgradeStepAnnotation]
	if step == "" {
		return r, nil
	}
	var err error
	if r.UpgradeStep, err = version.Parse(step); err != nil {
		return chain.Recorded{}, &FieldError{Ref: annotationRef(cluster, clusterv1.ClusterTopologyUpgradeStepAnnotation), Problem: err.Error() + ". Fix: remove it; the controller writes it again", Err: err}
	}
	return r, nil
}

// ReadLastUpgrade reads the last upgrade that a Cluster has recorded; nil where it has none. Nothing is
// decided by it, so ReadRecorded leaves it out. The error is a *FieldError.
func ReadLastUpgrade(cluster *clusterv1.Cluster) (*chain.Past, error) {
	var last *chain.Past
	err := readJSON(cluster, v1alpha1.LastUpgradeAnnotation, &last)
	return last, err
}

// readHooks reads what is recorded about hooks, which cannot be malformed.
func readHooks(cluster *clusterv1.Cluster) chain.Recorded {
	annotations := cluster.GetAnnotations()
	_, mayGo := annotations[runtimev1.OkToDeleteAnnotation]
	return chain.Recorded{Pending: Pending(cluster), OKToDelete: mayGo}
}

// WriteRecorded returns the annotations with r in them, and with what a newer release has added to these records. The input
// is not changed.
func WriteRecorded(annotations map[string]string, r chain.Recorded) (map[string]string, error) {
	written := make(map[string]string, len(annotations)+4)
	maps.Copy(written, annotations)
	set := func(key, value string) {
		if value == "" {
			delete(written, key)
			return
		}
		written[key] = value
	}
	pending := make([]string, len(r.Pending))
	for i, h := range r.Pending {
		pending[i] = string(h)
	}
	set(runtimev1.PendingHooksAnnotation, strings.Join(pending, ","))
	set(clusterv1.ClusterTopologyUpgradeStepAnnotation, r.UpgradeStep.String())
	if r.OKToDelete {
		written[runtimev1.OkToDeleteAnnotation] = ""
	}
	intent, err := writeJSON(r.Intent, annotations[v1alpha1.ChainIntentAnnotation])
	if err != nil {
		return nil, fmt.Errorf("writing the intent: %w", err)
	}
	set(v1alpha1.ChainIntentAnnotation, intent)
	progress, err := writeJSON(r.Chain, annotations[v1alpha1.ChainProgressAnnotation])
	if err != nil {
		return nil, fmt.Errorf("writing the progress: %w", err)
	}
	set(v1alpha1.ChainProgressAnnotation, progress)
	if r.Last != nil {
		// What a newer release has added to the progress goes with it.
		before := cmp.Or(annotations[v1alpha1.ChainProgressAnnotation], annotations[v1alpha1.LastUpgradeAnnotation])
		last, err := writeJSON(r.Last, before)
		if err != nil {
			return nil, fmt.Errorf("writing the last upgrade: %w", err)
		}
		set(v1alpha1.LastUpgradeAnnotation, last)
	}
	return written, nil
}

// Pending returns the hooks that a Cluster has recorded the intent to call, sorted, each once.
func Pending(cluster *clusterv1.Cluster) chain.Pending {
	var pending chain.Pending
	for name := range strings.SplitSeq(cluster.GetAnnotations()[runtimev1.PendingHooksAnnotation], ",") {
		if name != "" {
			pending = append(pending, chain.Hook(name))
		}
	}
	slices.Sort(pending)
	return slices.Compact(pending)
}

func annotationRef(cluster *clusterv1.Cluster, key string) Ref {
	return Ref{Object: cluster, Kind: "Cluster", Field: fmt.Sprintf("metadata.annotations[%s]", key)}
}

func readJSON[T any](cluster *clusterv1.Cluster, key string, into **T) error {
	value := cluster.GetAnnotations()[key]
	if value == "" {
		return nil
	}
	var read T
	if err := untrusted.Annotation.Unmarshal([]byte(value), &read); err != nil {
		return &FieldError{Ref: annotationRef(cluster, key), Problem: "it is not what Windlass writes there. Fix: remove it", Err: err}
	}
	*into = &read
	return nil
}

func writeJSON[T any](value *T, before string) (string, error) {
	if value == nil {
		return "", nil
	}
	return recordjson.Encode(value, before)
}
