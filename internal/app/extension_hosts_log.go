package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// updateLog keeps what updates of hosts print in ConfigMaps, one for each Machine, which go with the Machine.
type updateLog struct{ live client.Client }

const (
	// logTimeout bounds the time that an update waits for its log.
	logTimeout = 3 * time.Second
	// maxObjectName is how long the name of a ConfigMap may be.
	maxObjectName = 253
)

// Record implements hosts.Log.
func (l updateLog) Record(ctx context.Context, machine types.NamespacedName, entries []linuxhost.LogEntry, ended bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	err := l.record(ctx, machine, entries, ended)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = l.record(ctx, machine, entries, ended)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "the log of an update could not be kept", "Machine", machine)
	}
}

func (l updateLog) record(ctx context.Context, machine types.NamespacedName, entries []linuxhost.LogEntry, ended bool) error {
	name := types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name + v1alpha1.UpdateLogSuffix}
	if len(name.Name) > maxObjectName {
		return fmt.Errorf("the name of ConfigMap %s would be longer than %d characters", name, maxObjectName)
	}
	kept := &corev1.ConfigMap{}
	err := l.live.Get(ctx, name, kept)
	switch {
	case apierrors.IsNotFound(err):
		return l.create(ctx, machine, name, appendLog("", entries, ended))
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s: %w", name, err)
	case kept.Labels[v1alpha1.UpdateLogLabel] != "true":
		return fmt.Errorf("the ConfigMap %s is no log: it lacks the label %s; remove or rename it", name, v1alpha1.UpdateLogLabel)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": kept.ResourceVersion},
		"data":     map[string]any{v1alpha1.UpdateLogKey: appendLog(kept.Data[v1alpha1.UpdateLogKey], entries, ended)},
	})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	return l.live.Patch(ctx, kept, client.RawPatch(types.MergePatchType, patch))
}

// create makes the ConfigMap. The Machine owns it, so that it is deleted with it.
func (l updateLog) create(ctx context.Context, machine, name types.NamespacedName, text string) error {
	owner := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := l.live.Get(ctx, machine, owner); err != nil {
		return fmt.Errorf("reading Machine %s: %w", machine, err)
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{v1alpha1.UpdateLogLabel: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: owner.Name, UID: owner.UID}},
	}, Data: map[string]string{v1alpha1.UpdateLogKey: text}}
	return l.live.Create(ctx, made)
}

func appendLog(text string, entries []linuxhost.LogEntry, ended bool) string {
	for _, entry := range entries {
		text = linuxhost.AppendLog(text, entry)
	}
	if ended {
		return linuxhost.CutLog(text, linuxhost.LogEntryLimit)
	}
	return text
}
