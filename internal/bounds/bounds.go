package bounds

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/config/crd"
)

// The limits of the API server for the rules of one CRD, from k8s.io/apiserver/pkg/apis/cel.
const (
	perRule   = 1_000_000
	perObject = 10_000_000
)

// checks are those of one kind.
type checks struct {
	values validation.SchemaCreateValidator
	rules  *schemacel.Validator
	schema *schema.Structural
}

// byKind has the checks of all kinds. It is read once, and safe for concurrent use then.
var byKind = sync.OnceValues(func() (map[string]checks, error) {
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the CRDs: %w", err)
	}
	found := map[string]checks{}
	for _, file := range files {
		kind, c, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("reading the CRD %s: %w", file, err)
		}
		found[kind] = c
	}
	return found, nil
})

func read(file string) (kind string, c checks, err error) {
	content, err := crd.Files.ReadFile(file)
	if err != nil {
		return "", checks{}, err
	}
	var manifest apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &manifest); err != nil {
		return "", checks{}, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	external := manifest.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, internal, nil); err != nil {
		return "", checks{}, err
	}
	if c.values, _, err = validation.NewSchemaValidator(internal); err != nil {
		return "", checks{}, err
	}
	if c.schema, err = schema.NewStructural(internal); err != nil {
		return "", checks{}, err
	}
	c.rules = schemacel.NewValidator(c.schema, true, perRule)
	return manifest.Spec.Names.Kind, c, nil
}

// Check returns what an API server with the CRDs of this release would refuse if the object were created. The kind of an object that comes from a client
// may be unset: its Go type counts. An object of another project has no problem. It is safe for
// concurrent use.
func Check(ctx context.Context, object client.Object) (field.ErrorList, error) {
	all, err := byKind()
	if err != nil {
		return nil, err
	}
	kinds, _, err := scheme().ObjectKinds(object)
	if err != nil {
		return nil, nil //nolint:nilerr // The type is of another project.
	}
	kind := kinds[0]
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err)
	}
	// A request that creates an object has no effect on its status.
	delete(fields, "status")
	fields["apiVersion"], fields["kind"] = kind.GroupVersion().String(), kind.Kind
	c := all[kind.Kind]
	if problems := validation.ValidateCustomResource(nil, fields, c.values); len(problems) > 0 {
		// As the API server: rules are for objects that the schema accepts.
		return problems, nil
	}
	problems, _ := c.rules.Validate(ctx, nil, c.schema, fields, nil, perObject)
	return problems, nil
}

// scheme has the kinds of this project.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
})
