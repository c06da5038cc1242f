// Package settings prints the settings that a component of Kubernetes has: its flags and its feature
// gates, and the fields of its configuration file. Each component is linked apart from the others,
// because a gate is registered for all that is linked together. The programs are tests: Go keeps what
// a test has printed, and links it again only if something in it has changed.
//
// The packages build with the requirements of every minor since v1.32.
package settings

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	// The programs of Kubernetes link it, and have two flags more by that.
	_ "k8s.io/component-base/logs/json/register"
)

// Print writes a line for each setting of a component, in the form of PrintLines: "flag NAME", "gate
// NAME" or "gate NAME VALUE", where the gate is locked to that value, and the lines of needs.
func Print(w io.Writer, component string, flags *pflag.FlagSet) error {
	var lines []string
	flags.VisitAll(func(f *pflag.Flag) {
		// kube-proxy has all flags of its process, also those of a test.
		if !strings.HasPrefix(f.Name, "test.") {
			// Some flags are registered with underscores, which stand for dashes.
			lines = append(lines, "flag "+strings.ReplaceAll(f.Name, "_", "-"))
		}
	})
	gates := feature.DefaultMutableFeatureGate.GetAll()
	lines = append(lines, needs(gates)...)
	for name, spec := range gates {
		line := "gate " + string(name)
		if spec.LockToDefault {
			line += fmt.Sprintf(" %t", spec.Default)
		}
		lines = append(lines, line)
	}
	return PrintLines(w, component, slices.Compact(slices.Sorted(slices.Values(lines))))
}

// needs returns a line "needs GATE/OTHER" for each gate that can be on only while the other one is.
// "true" follows if both are on by default, and "false" if both are off.
func needs(gates map[featuregate.Feature]featuregate.FeatureSpec) []string {
	// Gates have no dependencies before v1.35.
	registry, ok := feature.DefaultMutableFeatureGate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	})
	if !ok {
		return nil
	}
	var lines []string
	for gate, others := range registry.Dependencies() {
		for _, other := range others {
			line := fmt.Sprintf("needs %s/%s", gate, other)
			if on := gates[gate].Default; on == gates[other].Default {
				line += fmt.Sprintf(" %t", on)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// PrintLines writes "setting COMPONENT LINE" for each line about a component.
func PrintLines(w io.Writer, component string, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, "setting", component, line); err != nil {
			return fmt.Errorf("printing settings: %w", err)
		}
	}
	return nil
}

// Fields returns a line "field PATH" for each field of a configuration, by the names that it has in a
// file. The fields of an element of a list or a map are below the list's or map's path and "*".
func Fields(config any) []string {
	var lines []string
	walk(reflect.TypeOf(config), "", func(path string) { lines = append(lines, "field "+path) })
	return lines
}

// walk calls yield with the path of each field below a type that is from an API package of
// Kubernetes. Other structs, such as Duration, have a form of their own in a file.
func walk(of reflect.Type, path string, yield func(string)) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		if of.Kind() != reflect.Pointer {
			path += "*."
		}
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || strings.HasSuffix(of.PkgPath(), "apimachinery/pkg/apis/meta/v1") ||
		strings.HasSuffix(of.PkgPath(), "apimachinery/pkg/api/resource") {
		return
	}
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && strings.Contains(options, "inline"):
			walk(field.Type, path, yield)
		case name != "" && name != "-":
			yield(path + name)
			walk(field.Type, path+name+".", yield)
		}
	}
}
