package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// An UpgradeGate whose lists are full still fits into one request of etcd, which takes 1.5 MiB, with as much left as an object's
// annotations may take: else its status could not be written any more, and no approval given.
func TestLargestUpgradeGateFits(t *testing.T) {
	t.Parallel()
	size := 0
	for _, part := range []string{"spec", "status"} {
		properties := schema(t, "windlass.dev_upgradegates.yaml", part)
		// A selector has no bounds of its own.
		delete(properties.Properties, "clusterSelector")
		if conditions, ok := properties.Properties["conditions"]; ok {
			// Conditions have larger bounds in the API than in what Windlass writes.
			for _, name := range []string{"message", "reason", "type"} {
				field := conditions.Items.Schema.Properties[name]
				field.MaxLength = new(int64(1024))
				conditions.Items.Schema.Properties[name] = field
			}
		}
		object, owned := largest(t, part, properties)
		for _, value := range []any{object, owned} {
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			size += len(encoded)
		}
	}
	const etcd, annotations = 3 << 19, 256 << 10
	if size >= etcd-annotations {
		t.Errorf("the largest UpgradeGate has %d bytes", size)
	}
}

// largest returns the largest value that a schema allows, and what managedFields say of it.
func largest(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) (value any, owned map[string]any) {
	t.Helper()
	owned = map[string]any{".": map[string]any{}}
	switch {
	case s.Type == "object":
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			object[name], owned["f:"+name] = largest(t, path+"."+name, s.Properties[name])
		}
		return object, owned
	case s.Type == "array" && s.MaxItems != nil:
		var list []any
		for i := range *s.MaxItems {
			item, ownedItem := largest(t, path, *s.Items.Schema)
			list = append(list, item)
			switch {
			case s.XListType == nil || *s.XListType == "atomic":
			case *s.XListType == "set":
				owned[fmt.Sprintf("v:%d%s", i, item)] = map[string]any{}
			default:
				key := map[string]any{}
				for _, name := range s.XListMapKeys {
					key[name], _ = largest(t, path, s.Items.Schema.Properties[name])
				}
				encoded, err := json.Marshal(key)
				if err != nil {
					t.Fatal(err)
				}
				owned[fmt.Sprintf("k:%d%s", i, encoded)] = ownedItem
			}
		}
		return list, owned
	case s.Type == "integer":
		return int64(-1 << 63), map[string]any{}
	case s.Format == "date-time":
		return "2026-11-21T10:00:00Z", map[string]any{}
	case len(s.Enum) > 0:
		return strings.Trim(string(slices.MaxFunc(s.Enum, func(a, b apiextensionsv1.JSON) int { return len(a.Raw) - len(b.Raw) }).Raw), `"`), map[string]any{}
	case s.Type == "string" && s.MaxLength != nil:
		// Of what people and others' programs write half may be quoted.
		text := strings.Repeat("x", int(*s.MaxLength))
		if name := path[strings.LastIndex(path, ".")+1:]; name == "message" || name == "by" {
			text = strings.Repeat(`"x`, int(*s.MaxLength)/2)
		}
		return text, map[string]any{}
	default:
		t.Fatalf("%s has no bound", path)
		return nil, nil
	}
}
