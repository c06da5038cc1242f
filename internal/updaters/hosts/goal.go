package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The keys of a ConfigMap with a manifest of digests.
const (
	manifestKey  = "SHA256SUMS"
	signatureKey = "SHA256SUMS.sig"
)

// computeVersion computes the version that the node is to report: the one that an annotation asks for, otherwise that of the desired Machine.
func computeVersion(option, desired string) (version.Version, error) {
	if option != "" {
		parsed, err := request.ParseOption(option)
		if err != nil {
			return version.Version{}, fmt.Errorf("the annotation %s: %w", v1alpha1.InPlaceUpgradeOptionAnnotation, err)
		}
		exact, ok := parsed.Exact()
		if !ok {
			return version.Version{}, fmt.Errorf("%s is for snaps; on a Linux host ask for a version, such as version=v1.36.3", parsed)
		}
		return exact, nil
	}
	parsed, err := version.Parse(desired)
	if err != nil {
		return version.Version{}, fmt.Errorf("the desired Machine's spec.version: %w", err)
	}
	return parsed, nil
}

// computeGoal computes what a host is to become, from the desired bootstrap config of its Machine. Of that, all counts that a running host can be given, whether
// or not it was changed: nobody knows here what was before. It returns a *setupError for kubeadm if it cannot read the config that the Machine has.
func (u *Updater) computeGoal(
	ctx context.Context, a attempt, digests linuxhost.Manifest,
) (linuxhost.Goal, error) {
	c := u.options.Config
	goal := linuxhost.Goal{
		Distribution: u.coverage.distribution, Version: a.to, Folder: c.BinariesFolder, Digests: digests,
		Source:   linuxhost.Source{URL: c.Binaries.URL, HostFolder: c.Binaries.HostFolder, Bundle: c.Binaries.Bundle != ""},
		Accepted: c.AcceptedSettings,
		Snapshot: c.EtcdSnapshot == v1alpha1.EtcdSnapshotRequired, ReadyWithin: time.Duration(c.NodeReadySeconds) * time.Second,
	}
	covered := u.coverage
	covered.worker = a.worker
	if goal.Distribution != linuxhost.Kubeadm {
		return covered.withRancherConfig(goal, a.bootstrap)
	}
	spec, err := readSpec(a.bootstrap, cover.Machine)
	if err != nil {
		return linuxhost.Goal{}, setup("the desired bootstrap config: %w", err)
	}
	if spec == nil {
		if err := checkNoConfig(a.bootstrap, a.config); err != nil {
			return linuxhost.Goal{}, err
		}
	}
	return covered.withConfig(ctx, goal, spec)
}

// checkNoConfig returns a *setupError for a config that readSpec does not know: kubeadm would upgrade
// the host without the patches that the config may have. name is the config that the Machine refers
// to; empty for none. A Machine without a config, such as one with a Secret of its own, has no patches.
func checkNoConfig(bootstrap json.RawMessage, name string) error {
	object, err := updaters.DecodeObject(bootstrap)
	switch {
	case err != nil:
		return setup("the desired bootstrap config: %w", err)
	case object != nil:
		return setup("the bootstrap config is a %v of %v, so nobody knows the patches for kubeadm, which "+
			"would upgrade the host without them. Fix: use a KubeadmConfig of %s, or replace the Machine",
			object["kind"], object["apiVersion"], bootstrapv1.GroupVersion)
	case name != "":
		return setup("the Machine's bootstrap config %s is gone, so nobody knows the patches for kubeadm, "+
			"which would upgrade the host without them. Fix: create the config again and annotate the "+
			"Machine with %s, or end the update with %s",
			name, v1alpha1.UpdateRetryAnnotation, v1alpha1.UpdateAbandonAnnotation)
	}
	return nil
}

// withConfig adds what a KubeadmConfig asks for. Fields that are not known here add nothing: they
// were not covered. It returns a *setupError if kubeadm would upgrade the host without a patch that
// the config has, and if the config has too many bytes.
func (c coverage) withConfig(
	ctx context.Context, goal linuxhost.Goal, spec configSpec,
) (linuxhost.Goal, error) {
	configuration := nodeConfiguration(spec)
	folder, _ := decodeField[string](spec, configuration, "patches", "directory")
	if err := c.checkFolder(configuration, folder); err != nil {
		return linuxhost.Goal{}, err
	}
	var err error
	if goal.Files, err = c.files(ctx, spec, folder); err != nil {
		return linuxhost.Goal{}, err
	}
	before, _ := decodeField[[]string](spec, beforeField)
	after, _ := decodeField[[]string](spec, afterField)
	goal.Before, goal.After = c.selectRepeatable(before), c.selectRepeatable(after)
	args, _ := decodeField[[]bootstrapv1.Arg](spec, configuration, "nodeRegistration", "kubeletExtraArgs")
	for _, arg := range args {
		if arg.Value != nil && isArg(arg.Name, *arg.Value) {
			goal.KubeletArgs = append(goal.KubeletArgs, linuxhost.Arg{Name: arg.Name, Value: *arg.Value})
		}
	}
	goal.DropRemoved = true
	if err := c.refuseSettings(goal.Version, spec); err != nil {
		return linuxhost.Goal{}, err
	}
	goal.IgnorePreflight, _ = decodeField[[]string](spec, configuration, "nodeRegistration", "ignorePreflightErrors")
	goal.Prefixes = c.prefixes
	goal.PatchesFolder = folder
	return goal, nil
}

// checkFolder returns a *setupError for a folder of patches that no host can have.
func (c coverage) checkFolder(configuration, folder string) error {
	if folder == "" {
		return nil
	}
	if !path.IsAbs(folder) || isTemplate(folder) {
		return setup("%s.patches.directory is %q; kubeadm upgrade needs the absolute path of a folder, "+
			"or it would take the patches away", configuration, folder)
	}
	if err := linuxhost.CheckPath(folder, c.prefixes, c.folder); err != nil {
		return setup("%s.patches.directory: %w; without the folder kubeadm upgrade would remove the "+
			"patches. Fix: allow the folder, or use another one", configuration, err)
	}
	return nil
}

// files returns the files of a config that a running host can be given. The error names a patch for
// kubeadm that it cannot, or is errContents. patches is the folder with patches; empty for none.
func (c coverage) files(
	ctx context.Context, spec configSpec, patches string,
) ([]linuxhost.File, error) {
	entries, ok := decodeField[[]bootstrapv1.File](spec, "files")
	if !ok && patches != "" {
		return nil, refuse(errors.New("files has a field that is not known here, " +
			"so nobody can tell which patches kubeadm gets"))
	}
	var files []linuxhost.File
	paths, reader := byPath(entries), c.newFileReader(patches)
	for _, at := range slices.Sorted(maps.Keys(paths)) {
		made, err := reader.onlyFile(ctx, paths[at])
		switch {
		case err == nil:
			files = append(files, made)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("reading the files of the bootstrap config: %w", ctx.Err())
		case errors.Is(err, errContents), linuxhost.IsPatch(patches, at):
			return nil, refuse(err)
		}
	}
	return files, nil
}

func (c coverage) selectRepeatable(commands []string) []string {
	var selected []string
	for _, command := range commands {
		if c.isRepeatable(command) {
			selected = append(selected, command)
		}
	}
	return selected
}

// readDigests reads the manifest of digests that is configured. A manifest that is not the pinned one, or not signed as configured, is a *setupError.
func (u *Updater) readDigests(ctx context.Context, namespace string) (linuxhost.Manifest, error) {
	d := u.options.Config.Binaries.Digests
	if d.ConfigMapName == "" {
		return parseDigests(linuxhost.ParseManifest(d.Manifest))
	}
	name := types.NamespacedName{Namespace: namespace, Name: d.ConfigMapName}
	data, err := u.options.ConfigMap(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return linuxhost.Manifest{}, setup("there is no ConfigMap %s with the manifest of digests", name)
	case err != nil:
		return linuxhost.Manifest{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	text, found := data[manifestKey]
	if !found {
		return linuxhost.Manifest{}, setup("the ConfigMap %s has no key %s with the manifest of digests", name, manifestKey)
	}
	if d.SHA256 != "" {
		return parseDigests(linuxhost.ParsePinnedManifest(text, linuxhost.Digest(d.SHA256)))
	}
	if d.PublicKey == "" {
		return linuxhost.Manifest{}, setup("with configMapName, one of sha256 and publicKey must be set")
	}
	if strings.TrimSpace(data[signatureKey]) == "" {
		return linuxhost.Manifest{}, setup("the ConfigMap %s has no key %s with the manifest's signature", name, signatureKey)
	}
	return u.readSigned(ctx, text, data[signatureKey])
}

// readSigned reads a signed manifest. Its serial is recorded before anything is done with it, so that from then on none that is
// older counts.
func (u *Updater) readSigned(ctx context.Context, text, signature string) (linuxhost.Manifest, error) {
	d := u.options.Config.Binaries.Digests
	trust := linuxhost.Trust{PublicKey: d.PublicKey, MinSerial: d.MinSerial, AllowUnversioned: d.AllowUnversioned}
	manifest, err := linuxhost.ParseSignedManifest(text, signature, trust, u.options.Now())
	if err != nil {
		return linuxhost.Manifest{}, setup("%w", err)
	}
	if manifest.Terms().Serial == 0 || u.options.RecordSerial == nil {
		return manifest, nil
	}
	if trust.MinSerial, err = u.options.RecordSerial(ctx, manifest.Terms().Serial); err != nil {
		return linuxhost.Manifest{}, fmt.Errorf("recording the serial of the manifest of digests: %w", err)
	}
	return parseDigests(linuxhost.ParseSignedManifest(text, signature, trust, u.options.Now()))
}

func parseDigests(manifest linuxhost.Manifest, err error) (linuxhost.Manifest, error) {
	if err != nil {
		return linuxhost.Manifest{}, setup("%w", err)
	}
	return manifest, nil
}

// setupError is about what is configured. Nobody but a person fixes it.
type setupError struct {
	reason string
	err    error
}

// Error implements error.
func (e *setupError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *setupError) Unwrap() error { return e.err }

func setup(format string, args ...any) error {
	return &setupError{string(port.HostSetup), fmt.Errorf(format, args...)}
}

func refuse(err error) error { return &setupError{string(linuxhost.FileRefused), err} }
