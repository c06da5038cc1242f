package kubeadmpatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windlass-dev/windlass/internal/text"
)

// CheckEffect applies the patches of one target to the document that a host has, in the order and with
// the libraries of kubeadm. It returns nil if only safe fields of the result differ. Otherwise the
// error says why not, and Fix. It has no values of the patches or the document. It refuses CoreDNS.
//
// Check must have accepted each of the files. Those of other targets are ignored. The document may
// have these patches already, and lacks what only the next version renders, so a remove or replace
// that finds nothing is skipped. Any other operation that does not apply is an error.
//
// Time is linear in the length of the patches, plus that of the document for each of at most 256
// operations. Once ctx is done, CheckEffect soon returns an error that wraps the one of ctx.
func CheckEffect(ctx context.Context, target string, present []byte, files []File) error {
	if target == CoreDNS {
		return errCoreDNS
	}
	before, err := limits.Until(ctx).YAMLToJSON(present)
	if err != nil {
		return fmt.Errorf("the effect of patches is unknown: the %s of the host %w", describe(target),
			unread(err))
	}
	a := applier{target: target, document: before, left: maxOperations}
	for _, file := range slices.SortedFunc(slices.Values(files), compareFiles) {
		if file.target() != target {
			continue
		}
		if err := a.applyFile(ctx, file); err != nil {
			return fmt.Errorf("the patch %s for kubeadm %w", text.Bound(file.Path, maxPath), err)
		}
	}
	changed, differs, err := difference(ctx, target, before, a.document)
	if err != nil || !differs {
		return err
	}
	return fmt.Errorf("the patches for kubeadm would change %s in the %s of the host, which can run "+
		"anything as root. %s", cmp.Or(text.Bound(changed, maxPath), "all"), describe(target), fix(target))
}

func describe(target string) string {
	if target == Kubelet {
		return "kubelet's configuration"
	}
	return "manifest of " + target
}

// applier applies patches one after another.
type applier struct {
	target   string
	document []byte
	// left is how many operations may follow.
	left int
}

// applyFile applies a file. The error continues a sentence that begins with the file.
func (a *applier) applyFile(ctx context.Context, file File) error {
	documents, err := parse(ctx, file.Content)
	if err != nil {
		return unread(err)
	}
	_, k := parseName(path.Base(file.Path))
	for _, d := range documents {
		if err := a.apply(ctx, k, d.json); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) apply(ctx context.Context, k kind, patch []byte) error {
	if k != jsonPatch {
		return a.step(ctx, func() ([]byte, error) { return mergeInto(a.document, k, a.target, patch) })
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return errNotApplied
	}
	for _, operation := range operations {
		err := a.step(ctx, func() ([]byte, error) { return jsonpatch.Patch{operation}.Apply(a.document) })
		if kind := operation.Kind(); errors.Is(err, errNotApplied) && (kind == "remove" || kind == "replace") {
			// The host's document has these patches already, or lacks what the next version renders.
			// Check accepted the path.
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errNotApplied has no text of the library, which may have values.
var errNotApplied = errors.New("does not apply to what the host has, so kubeadm would fail. Fix: " +
	"correct the patch")

// step applies one operation.
func (a *applier) step(ctx context.Context, apply func() ([]byte, error)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot be applied: %w", err)
	}
	if a.left--; a.left < 0 {
		return fmt.Errorf("cannot be applied: %w, with those of other files. Fix: merge them", errTooMany)
	}
	patched, err := withoutPanic(apply)
	if err != nil {
		return errNotApplied
	}
	a.document = patched
	return nil
}

// withoutPanic returns an error if a library panics, as strategicpatch does if a list has values of
// unexpected types. A tenant may have made the document, too.
func withoutPanic(apply func() ([]byte, error)) (patched []byte, err error) {
	defer func() {
		if recover() != nil {
			err = errNotApplied
		}
	}()
	return apply()
}

func mergeInto(document []byte, k kind, target string, patch []byte) ([]byte, error) {
	switch {
	case k == mergePatch:
		return jsonpatch.MergePatch(document, patch)
	case target == Kubelet:
		return strategicpatch.StrategicMergePatchUsingLookupPatchMeta(document, patch, untagged{})
	}
	return strategicpatch.StrategicMergePatch(document, patch, corev1.Pod{})
}

// untagged has what the tags of KubeletConfiguration and of the types in it say about strategic merge
// patches: nothing. So objects are merged, and lists are replaced. It does not know the types of fields:
// kubeadm refuses a list where an object belongs.
type untagged struct{}

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta.
func (untagged) LookupPatchMetadataForStruct(string) (
	strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error,
) {
	return untagged{}, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta.
func (untagged) LookupPatchMetadataForSlice(string) (
	strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error,
) {
	return untagged{}, strategicpatch.PatchMeta{}, nil
}

// Name implements strategicpatch.LookupPatchMeta.
func (untagged) Name() string { return "" }

// difference returns the path of a field that is not safe and that differs between two documents in
// JSON, and whether there is one.
func difference(
	ctx context.Context, target string, before, after []byte,
) (path string, differs bool, err error) {
	// Patches can make a document larger, within their own limits.
	bounded := limits.Until(ctx)
	bounded.Bytes, bounded.Nodes = 4*bounded.Bytes, 4*bounded.Nodes
	was, err := bounded.Tree(before)
	if err != nil {
		return "", false, fmt.Errorf("the %s of the host %w", describe(target), unread(err))
	}
	is, err := bounded.Tree(after)
	if err != nil {
		return "", false, fmt.Errorf("the patched %s %w", describe(target), unread(err))
	}
	for _, tree := range []any{was, is} {
		dropSafe(target, tree)
	}
	path, differs = firstDifference("", was, is)
	return path, differs, nil
}

// dropSafe removes all safe fields from a document.
func dropSafe(target string, tree any) {
	document, _ := tree.(map[string]any)
	if target == Kubelet {
		for _, name := range safeKubeletFields {
			delete(document, name)
		}
		return
	}
	metadata, _ := document["metadata"].(map[string]any)
	delete(metadata, annotationsField)
	delete(metadata, labelsField)
	spec, _ := document["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		delete(fields, resourcesField)
	}
}

// firstDifference returns the path of the first value, in the order of names, that only one of two
// trees has, and whether there is one. All of a list counts as one value.
func firstDifference(at string, a, b any) (path string, differs bool) {
	one, isObject := a.(map[string]any)
	other, areObjects := b.(map[string]any)
	if !isObject || !areObjects {
		return at, !reflect.DeepEqual(a, b)
	}
	names := slices.Collect(maps.Keys(one))
	for name := range other {
		if _, both := one[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		below := strings.TrimPrefix(at+"."+name, ".")
		value, has := one[name]
		otherValue, otherHas := other[name]
		if has != otherHas {
			return below, true
		}
		if path, differs := firstDifference(below, value, otherValue); differs {
			return path, true
		}
	}
	return "", false
}
