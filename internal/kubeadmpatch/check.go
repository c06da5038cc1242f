package kubeadmpatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// fix says what a safe patch is.
func fix(target string) string {
	if target == Kubelet {
		return "Fix: patch only numbers, durations, sizes and policies"
	}
	return "Fix: patch only annotations, labels and the container's resources"
}

// errCoreDNS refuses every patch of CoreDNS. kubeadm applies it with the rights of an admin, and
// CoreDNS tolerates the taint of control planes.
var errCoreDNS = errors.New("the patch for kubeadm changes the Deployment of CoreDNS, which can run " +
	"anything as root on the hosts of the cluster. Fix: remove it")

// Check returns nil for a file that kubeadm does not take for a patch, and for a safe
// patch. No patch of CoreDNS is safe. Otherwise the error says why not, and Fix. It has no values of
// the patch.
//
// Time and memory are linear in the length of content, which MaxBytes bounds. Once ctx is done, Check
// soon returns an error that wraps the one of ctx.
func Check(ctx context.Context, name string, content []byte) error {
	target, k := parseName(name)
	switch target {
	case "":
		return nil
	case CoreDNS:
		return errCoreDNS
	}
	if k == "" {
		return fmt.Errorf("kubeadm does not know the type of the patch. Fix: name it %s+json.yaml, "+
			"%[1]s+merge.yaml or %[1]s+strategic.yaml", target)
	}
	documents, err := parse(ctx, content)
	if err != nil {
		return fmt.Errorf("the patch for kubeadm %w", unread(err))
	}
	operations := 0
	for _, d := range documents {
		n, err := checkDocument(target, k, d.tree)
		if err != nil {
			return fmt.Errorf("the patch for kubeadm %w. %s", err, fix(target))
		}
		if operations += n; operations > maxOperations {
			return fmt.Errorf("the patch for kubeadm %w", unread(errTooMany))
		}
	}
	return nil
}

// checkDocument checks one document of a patch, and counts its operations.
func checkDocument(target string, k kind, tree any) (operations int, err error) {
	if tree == nil {
		return 1, nil
	}
	if k != jsonPatch {
		return 1, check(safeFields(target, k), tree)
	}
	list, ok := tree.([]any)
	if !ok {
		return 0, errors.New("is not a list of operations, which a JSON patch is")
	}
	for i, operation := range list {
		if err := checkOperation(target, operation); err != nil {
			return 0, fmt.Errorf("has operation %d, which %w", i+1, err)
		}
	}
	return len(list), nil
}

// safeFields is the rule for a merge patch or strategic merge patch of a target.
func safeFields(target string, k kind) rule {
	if target == Kubelet {
		fields := map[string]rule{
			"apiVersion": constant("kubelet.config.k8s.io/v1beta1"), "kind": constant("KubeletConfiguration"),
		}
		for _, name := range safeKubeletFields {
			fields[name] = anything
		}
		return object(fields)
	}
	spec := map[string]rule{}
	if k == strategicPatch {
		spec["containers"] = list(container(target))
	}
	return object(map[string]rule{
		"apiVersion": constant("v1"), "kind": constant("Pod"), "spec": object(spec),
		"metadata": object(map[string]rule{
			"name": constant(target), "namespace": constant("kube-system"),
			annotationsField: texts, labelsField: texts,
		}),
	})
}

// The fields of a static pod below which a patch may set and remove what it likes.
const (
	annotationsField = "annotations"
	labelsField      = "labels"
	resourcesField   = "resources"
)

var (
	texts      = mapOf(isText, "text")
	quantities = mapOf(isQuantity, "a quantity")
	// resources is the rule for the resources of a container. A static pod has no claims.
	resources = orNull(object(map[string]rule{"limits": quantities, "requests": quantities}))
)

// checkOperation checks an operation of a JSON patch. It accepts one that sets or removes a safe field
// or something in it, by the same rules as a strategic merge patch.
func checkOperation(target string, operation any) error {
	fields, ok := operation.(map[string]any)
	if !ok {
		return errors.New("is not an object")
	}
	value := fields["value"]
	switch op := fields["op"]; {
	case op == "remove":
		value = nil
	case op != "add" && op != "replace":
		return errors.New("is none of add, replace and remove")
	case value == nil:
		// The library that applies it panics on an operation below a null.
		return errors.New("has no value")
	}
	pointer, ok := fields["path"].(string)
	parts := strings.Split(pointer, "/")
	if !ok || parts[0] != "" || len(parts) > limits.Depth {
		return errors.New("has no path, or one that does not begin with /, or is too long")
	}
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	nested, ok := nest(target, parts[1:], value)
	if !ok {
		return &fieldError{path: parts[1:]}
	}
	return check(safeFields(target, strategicPatch), nested)
}

// index matches the indexes of elements that exist. A patch that appends a container is not safe.
var index = regexp.MustCompile(`^[0-9]{1,3}$`)

// nest returns a patch that sets what is at a path to a value. ok is false for a path above all safe
// fields, because an operation replaces all that is there.
func nest(target string, path []string, value any) (patch any, ok bool) {
	isContainer := len(path) > 3 && path[0] == "spec" && path[1] == "containers" && index.MatchString(path[2])
	switch {
	case target == Kubelet:
		return nestFields(path, value), len(path) > 0
	case isContainer && path[3] == resourcesField:
		container := map[string]any{"name": target, resourcesField: nestFields(path[4:], value)}
		return nestFields(path[:2], []any{container}), true
	case len(path) > 1 && path[0] == "metadata" && (path[1] == annotationsField || path[1] == labelsField):
		return nestFields(path, value), true
	}
	return nil, false
}

func nestFields(path []string, value any) any {
	for _, name := range slices.Backward(path) {
		value = map[string]any{name: value}
	}
	return value
}
