package settings

import (
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

// talosFields are those of a Talos machine configuration with arguments by name. Talos runs the
// components as upstream releases them.
var talosFields = []argField{
	{APIServer, []string{"cluster", "apiServer", "extraArgs"}},
	{ControllerManager, []string{"cluster", "controllerManager", "extraArgs"}},
	{Scheduler, []string{"cluster", "scheduler", "extraArgs"}},
	{Proxy, []string{"cluster", "proxy", "extraArgs"}},
	{Kubelet, talosKubelet},
}

var (
	talosKubelet = []string{"machine", "kubelet", "extraArgs"}
	// talosKubeletConfig has fields of a KubeletConfiguration.
	talosKubeletConfig = []string{"machine", "kubelet", "extraConfig"}
)

// fromTalosControlPlane returns the settings in the configs of a control plane of Talos. Older ones have
// one of their own for the first machine.
func fromTalosControlPlane(p Place, spec map[string]any) []Use {
	var uses []Use
	for _, field := range []string{"init", "controlplane"} {
		config, _ := below(spec, "controlPlaneConfig", field).(map[string]any)
		uses = append(uses, fromTalos(p.at(field), config)...)
	}
	return uses
}

// fromTalos returns the settings in a config of Cluster API's Talos provider: in the machine
// configuration, if the object has one, and in the patches of it. Each list of patches counts by
// itself: what a later patch of it replaces or removes, no component gets.
func fromTalos(p Place, config map[string]any) []Use {
	data, _ := config["data"].(string)
	uses := fromMachineConfig(p.at("data"), mergedDocuments(nil, data))
	var strategic, json any
	for _, patch := range wordsOf(config["strategicPatches"]) {
		strategic = mergedDocuments(strategic, patch)
	}
	uses = append(uses, fromMachineConfig(p.at("strategicPatches"), strategic)...)
	patches, _ := config["configPatches"].([]any)
	for _, patch := range patches {
		json = patched(json, patch)
	}
	uses = append(uses, fromMachineConfig(p.at("configPatches"), json)...)
	if kind, _ := config["generateType"].(string); kind == "worker" || kind == "join" {
		uses = slices.DeleteFunc(uses, func(u Use) bool { return u.Component != Kubelet })
	}
	return uses
}

func fromMachineConfig(p Place, config any) []Use {
	uses := fromNamed(p, config, talosFields)
	kubelet, _ := below(config, talosKubeletConfig...).(map[string]any)
	return append(uses, FromKubelet(p.at(talosKubeletConfig...), kubelet)...)
}

// mergedDocuments merges the YAML documents of a strategic merge patch into a configuration, as far as
// they can be read.
func mergedDocuments(base any, patch string) any {
	for document := range strings.SplitSeq("\n"+patch, "\n---") {
		var content map[string]any
		if untrusted.Object.UnmarshalYAML([]byte(document), &content) == nil {
			base = merged(base, content)
		}
	}
	return base
}

// merged merges a strategic merge patch of Talos: mappings by key, lists are appended. It changes base,
// and the result has no mapping of the patch.
func merged(base, patch any) any {
	switch patch := patch.(type) {
	case map[string]any:
		if patch["$patch"] == "delete" {
			return nil
		}
		fields, _ := base.(map[string]any)
		if fields == nil {
			fields = make(map[string]any, len(patch))
		}
		for name, value := range patch {
			fields[name] = merged(fields[name], value)
		}
		return fields
	case []any:
		list, _ := base.([]any)
		return append(list, patch...)
	}
	return patch
}

// maxPathFields is the depth of a JSON patch that counts. Those of settings are less deep.
const maxPathFields = 16

// pointerName decodes a part of a JSON pointer.
var pointerName = strings.NewReplacer("~1", "/", "~0", "~")

// patched applies an operation of a JSON patch to what is known of a configuration. An element of a
// list is a field whose name is its index.
func patched(base, operation any) any {
	pointer, _ := below(operation, "path").(string)
	fields := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if len(fields) > maxPathFields {
		return base
	}
	for i := range fields {
		fields[i] = pointerName.Replace(fields[i])
	}
	switch below(operation, "op") {
	case "add", "replace":
		return put(base, fields, below(operation, "value"))
	case "remove":
		return put(base, fields, nil)
	}
	return base
}

// put sets a value at some fields of base, and returns it. It changes base, but not the value.
func put(base any, fields []string, value any) any {
	if len(fields) == 0 {
		return merged(nil, value)
	}
	object, _ := base.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object[fields[0]] = put(object[fields[0]], fields[1:], value)
	return object
}
