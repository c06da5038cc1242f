package crdtest

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestUpdatePolicies(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: windlass.dev/v1alpha1\nkind: UpdatePolicy\nmetadata: {name: keep, namespace: clusters}\nspec:\n"
	const inPlace = "  strategy: ExternalUpdate\n"
	const all = inPlace + "  targets: [{}]\n"
	checkObjects(t, updatePolicies, head, map[string]objectTest{
		"everything": {spec: inPlace + `
  targets:
  - {clusterName: prod.a, controlPlane: true, machineDeployments: [md-0, md.1], selector: {matchLabels: {a: b}}}
  - {clusterSelector: {matchExpressions: [{key: a, operator: Exists}]}}
  - {}
  fallback: None
  maxInFlight: 3
  drain: true
  soakSeconds: 60
  maxAttempts: 5
  attemptTimeoutSeconds: 600
  onFailure: Remediate
  ignorePaths: [{object: Machine, path: /spec/failureDomain}, {object: InfrastructureMachine, path: /spec/a~1b/~0c}, {object: BootstrapConfig, path: /spec/failureDomain}]`},
		"only what is required":   {spec: all},
		"an order":                {spec: all + "  onDelete: InPlace\n  order: {labels: [example.com/rack, zone], oneAtATime: true, last: {matchLabels: {a: b}}}"},
		"handed over":             {spec: all + "  handOver: Group\n  partition: 1\n  canary: 2\n  onFailure: Pause\n  groupDeadlineSeconds: 60"},
		"machine by machine":      {spec: all + "  handOver: Machine\n  drain: true\n  soakSeconds: 1"},
		"handed over, and drains": {spec: all + "  handOver: Group\n  drain: true", want: []string{"spec.handOver: Invalid value: handOver Group goes without drain, batches, order and ignorePaths"}},
		"handed over in batches":  {spec: all + "  handOver: Group\n  batches: [1]", want: []string{"spec.handOver: Invalid value: handOver Group goes without drain, batches, order and ignorePaths"}},
		"handed over, and soaks":  {spec: all + "  handOver: Group\n  soakSeconds: 1", want: []string{"spec.handOver: Invalid value: handOver Group goes without soakSeconds"}},
		"handed over on delete":   {spec: all + "  handOver: Group\n  onDelete: InPlace", want: []string{"spec.handOver: Invalid value: handOver Group goes without onDelete InPlace"}},
		"handed over or replaced": {spec: "  strategy: RollingUpdate\n  targets: [{}]\n  handOver: Group", want: []string{"spec.handOver: Invalid value: handOver goes with strategy ExternalUpdate only"}},
		"prepared":                {spec: all + "  prefetch: {maxInFlight: 1000}"},
		"prepared by none":        {spec: all + "  prefetch: {maxInFlight: 0}", want: []string{"spec.prefetch.maxInFlight: Invalid value: 0"}},
		"prepared by too many":    {spec: all + "  prefetch: {maxInFlight: 1001}", want: []string{"spec.prefetch.maxInFlight: Invalid value: 1001"}},
		"prepared by nobody":      {spec: all + "  prefetch: {}", want: []string{"spec.prefetch.maxInFlight: Required value"}},
		"prepared or replaced":    {spec: "  strategy: RollingUpdate\n  targets: [{}]\n  prefetch: {maxInFlight: 1}", want: []string{"spec.prefetch: Invalid value: prefetch goes with strategy ExternalUpdate only"}},
		"prepared, handed over":   {spec: all + "  handOver: Group\n  prefetch: {maxInFlight: 1}", want: []string{"spec.prefetch: Invalid value: prefetch goes without handOver Group"}},
		"no order":                {spec: all + "  order: {}", want: []string{"spec.order: Invalid value: 0: spec.order in body should have at least 1 properties"}},
		"one of nothing":          {spec: all + "  order: {oneAtATime: true}", want: []string{"spec.order.oneAtATime: Invalid value: oneAtATime needs labels"}},
		"a label that is none":    {spec: all + "  order: {labels: [a b]}", want: []string{`spec.order.labels[0]: Invalid value: "a b": must be the key of a label, such as rack or example.com/rack`}},
		"a label twice":           {spec: all + "  order: {labels: [rack, zone, rack]}", want: []string{"spec.order.labels: Invalid value: must not name a label twice"}},
		"the last of none":        {spec: all + "  order: {last: {}}", want: []string{"spec.order.last: Invalid value: must select Machines: set matchLabels or matchExpressions, or remove last"}},
		"the last by no label":    {spec: all + "  order: {last: {matchLabels: {}}}", want: []string{"spec.order.last: Invalid value: must select Machines"}},
		"the last by expressions": {spec: all + "  order: {last: {matchExpressions: [{key: a, operator: NotIn, values: [b]}, {key: c, operator: Exists}]}}"},
		"an unknown operator":     {spec: all + "  order: {last: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}", want: []string{"spec.order.last.matchExpressions: Invalid value: operator must be In, NotIn, Exists or DoesNotExist"}},
		"in no values":            {spec: all + "  order: {last: {matchExpressions: [{key: a, operator: In}]}}", want: []string{"spec.order.last.matchExpressions: Invalid value: values are required with operator In or NotIn"}},
		"values that must exist":  {spec: all + "  order: {last: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}", want: []string{"spec.order.last.matchExpressions: Invalid value: values must be empty with operator Exists or DoesNotExist"}},
		"many labels":             {spec: all + "  order: {labels: [a, b, c, d, e]}", want: []string{"spec.order.labels: Too many: 5: must have at most 4 items"}},
		"in place and replaced":   {spec: "  strategy: RollingUpdate\n  targets: [{}]\n  onDelete: InPlace", want: []string{"spec.onDelete: Invalid value: onDelete goes with strategy ExternalUpdate only"}},
		"replaced":                {spec: "  strategy: RollingUpdate\n  targets: [{}]"},
		"in place or replaced":    {spec: all + "  fallback: RollingUpdate"},
		"a fallback of no effect": {spec: "  strategy: RollingUpdate\n  targets: [{}]\n  fallback: None", want: []string{"spec.fallback: Invalid value: fallback goes with strategy ExternalUpdate only: with RollingUpdate machines are always replaced"}},
		"no strategy":             {spec: "  targets: [{}]", want: []string{"spec.strategy: Required value"}},
		"an unknown strategy":     {spec: "  strategy: OnDelete\n  targets: [{}]", want: []string{`spec.strategy: Unsupported value: "OnDelete"`}},
		"an unknown fallback":     {spec: all + "  fallback: Replace", want: []string{`spec.fallback: Unsupported value: "Replace"`}},
		"an unknown action":       {spec: all + "  onFailure: Replace", want: []string{`spec.onFailure: Unsupported value: "Replace"`}},
		"no targets":              {spec: inPlace, want: []string{"spec.targets: Required value"}},
		"no target":               {spec: inPlace + "  targets: []", want: []string{"spec.targets: Invalid value: 0: spec.targets in body should have at least 1 items"}},
		"many targets":            {spec: inPlace + "  targets: [" + strings.Repeat("{},", 33) + "]", want: []string{"spec.targets: Too many: 33: must have at most 32 items"}},
		"a cluster named twice":   {spec: inPlace + "  targets: [{}, {clusterName: a, clusterSelector: {}}]", want: []string{"spec.targets[1]: Invalid value: set clusterName or clusterSelector, not both"}},
		"a cluster's name":        {spec: inPlace + "  targets: [{clusterName: a/b}]", want: []string{`spec.targets[0].clusterName: Invalid value: "a/b": must be the name of a Cluster`}},
		"an empty name":           {spec: inPlace + `  targets: [{clusterName: ""}]`, want: []string{`spec.targets[0].clusterName: Invalid value: ""`}},
		"a MachineDeployment's name": {
			spec: inPlace + "  targets: [{machineDeployments: [md-0, MD_1]}]", want: []string{`spec.targets[0].machineDeployments[1]: Invalid value: "MD_1": must be the name of a MachineDeployment or of its topology`},
		},
		"an empty MachineDeployment":    {spec: inPlace + `  targets: [{machineDeployments: [""]}]`, want: []string{`spec.targets[0].machineDeployments[0]: Invalid value: ""`}},
		"a MachineDeployment twice":     {spec: inPlace + "  targets: [{machineDeployments: [a, b, a]}]", want: []string{`spec.targets[0].machineDeployments[2]: Duplicate value: "a"`}},
		"no machine in flight":          {spec: all + "  maxInFlight: 0", want: []string{"spec.maxInFlight: Invalid value: 0"}},
		"very many in flight":           {spec: all + "  maxInFlight: 10001", want: []string{"spec.maxInFlight: Invalid value: 10001"}},
		"no canary":                     {spec: all + "  canary: 0"},
		"a canary of two":               {spec: all + "  canary: 2"},
		"a canary in percent":           {spec: all + "  canary: 10%\n  partition: 50%\n  batches: [1, 25%]"},
		"a canary without unit":         {spec: all + "  canary: \"2\"", want: []string{`spec.canary: Invalid value: "2": must be a number between 0 and 10000, or a percentage between 0% and 100%, such as 25%`}},
		"a canary above all":            {spec: all + "  canary: 101%", want: []string{`spec.canary: Invalid value: "101%": must be a number between 0 and 10000, or a percentage between 0% and 100%, such as 25%`}},
		"a percentage with a zero":      {spec: all + "  partition: 05%", want: []string{`spec.partition: Invalid value: "05%": must be a number between 0 and 10000, or a percentage between 0% and 100%, such as 25%`}},
		"a percentage that goes on":     {spec: all + "  partition: 5%%", want: []string{`spec.partition: Invalid value: "5%%": must be a number between 0 and 10000, or a percentage between 0% and 100%, such as 25%`}},
		"no percentage":                 {spec: all + "  canary: 0%\n  partition: 0%"},
		"all":                           {spec: all + "  canary: 100%\n  partition: 100%\n  batches: [100%, 1%, 99%]"},
		"a batch of none in percent":    {spec: all + "  batches: [1, 0%]", want: []string{`spec.batches[1]: Invalid value: "0%": must be a number between 1 and 10000, or a percentage between 1% and 100%, such as 25%`}},
		"no batches":                    {spec: all + "  batches: []", want: []string{"spec.batches in body should have at least 1 items"}},
		"an empty batch":                {spec: all + "  batches: [0]", want: []string{"spec.batches[0]: Invalid value: 0: must be a number between 1 and 10000, or a percentage between 1% and 100%, such as 25%"}},
		"failures that nobody counts":   {spec: all + "  maxFailures: 2", want: []string{"spec.maxFailures: Invalid value"}},
		"failures":                      {spec: all + "  maxFailures: 2\n  onFailure: Pause"},
		"a canary below zero":           {spec: all + "  canary: -1", want: []string{"spec.canary: Invalid value: -1"}},
		"no attempt":                    {spec: all + "  maxAttempts: 0", want: []string{"spec.maxAttempts: Invalid value: 0"}},
		"no time for an attempt":        {spec: all + "  attemptTimeoutSeconds: 0", want: []string{"spec.attemptTimeoutSeconds: Invalid value: 0"}},
		"a negative soak":               {spec: all + "  soakSeconds: -1", want: []string{"spec.soakSeconds: Invalid value: -1"}},
		"a day's soak":                  {spec: all + "  soakSeconds: 86401", want: []string{"spec.soakSeconds: Invalid value: 86401"}},
		"a path of an unknown object":   {spec: all + "  ignorePaths: [{object: Cluster, path: /spec/a}]", want: []string{`spec.ignorePaths[0].object: Unsupported value: "Cluster"`}},
		"a path of no object":           {spec: all + "  ignorePaths: [{path: /spec/a}]", want: []string{"spec.ignorePaths[0].object: Required value"}},
		"no path":                       {spec: all + "  ignorePaths: [{object: Machine}]", want: []string{"spec.ignorePaths[0].path: Required value"}},
		"a path twice":                  {spec: all + "  ignorePaths: [{object: Machine, path: /spec/a}, {object: Machine, path: /spec/a}]", want: []string{"spec.ignorePaths[1]: Duplicate value"}},
		"a path of metadata":            {spec: all + "  ignorePaths: [{object: Machine, path: /metadata/labels}]", want: []string{`spec.ignorePaths[0].path: Invalid value: "/metadata/labels": must be a JSON pointer to a field below /spec`}},
		"the whole spec":                {spec: all + "  ignorePaths: [{object: Machine, path: /spec}]", want: []string{"must be a JSON pointer to a field below /spec"}},
		"the whole spec with slash":     {spec: all + "  ignorePaths: [{object: Machine, path: /spec/}]", want: []string{"must be a JSON pointer to a field below /spec"}},
		"a path like the spec":          {spec: all + "  ignorePaths: [{object: Machine, path: /specs/a}]", want: []string{"must be a JSON pointer to a field below /spec"}},
		"a path with dots":              {spec: all + "  ignorePaths: [{object: Machine, path: spec.a}]", want: []string{"must be a JSON pointer to a field below /spec"}},
		"a path that escapes wrongly":   {spec: all + "  ignorePaths: [{object: Machine, path: /spec/a~2}]", want: []string{"must be a JSON pointer to a field below /spec"}},
		"a path that ends in an escape": {spec: all + "  ignorePaths: [{object: Machine, path: /spec/a~}]", want: []string{"must be a JSON pointer to a field below /spec"}},
		"the version": {
			spec: all + "  ignorePaths: [{object: Machine, path: /spec/version}]", want: []string{"spec.ignorePaths[0].path: Invalid value: the Kubernetes version of a Machine cannot be ignored"},
		},
	})
}

// TestDefaults holds what the API server fills in. That fallback stays open lets a policy be told from one that says None.
func TestDefaults(t *testing.T) {
	t.Parallel()
	var object map[string]any
	if err := yaml.Unmarshal([]byte("apiVersion: windlass.dev/v1alpha1\nkind: UpdatePolicy\nmetadata: {name: a, namespace: b}\nspec: {strategy: RollingUpdate, targets: [{}]}"), &object); err != nil {
		t.Fatal(err)
	}
	if problems := newValidator(t, updatePolicies).validate(t, object); len(problems) > 0 {
		t.Fatal(problems)
	}
	const want = "map[attemptTimeoutSeconds:1800 canary:1 maxAttempts:3 maxInFlight:1 onFailure:Wait strategy:RollingUpdate targets:[map[]]]"
	if got := fmt.Sprint(object["spec"]); got != want {
		t.Errorf("the spec became %s, want %s", got, want)
	}
}

// TestLargestUpdatePolicy holds that the rules can be afforded for every object that keeps the bounds.
func TestLargestUpdatePolicy(t *testing.T) {
	t.Parallel()
	spec := loadCRD(t, updatePolicies).Spec.Validation.OpenAPIV3Schema.Properties["spec"]
	perTarget := maxTargetEntries / int(*spec.Properties["targets"].MaxItems)
	var targets, paths []any
	for i := range int(*spec.Properties["targets"].MaxItems) {
		var deployments []any
		for j := range perTarget {
			name := fmt.Sprintf("%d-%d-", i, j)
			deployments = append(deployments, name+strings.Repeat("x", 253-len(name)))
		}
		targets = append(targets, map[string]any{"clusterName": strings.Repeat("x", 253), "machineDeployments": deployments})
	}
	for i := range int(*spec.Properties["ignorePaths"].MaxItems) {
		path := fmt.Sprintf("/spec/%d", i)
		paths = append(paths, map[string]any{"object": "Machine", "path": path + strings.Repeat("/x", (512-len(path))/2)})
	}
	for _, problem := range newValidator(t, updatePolicies).validate(t, map[string]any{
		"apiVersion": "windlass.dev/v1alpha1", "kind": "UpdatePolicy", "metadata": map[string]any{"name": "largest", "namespace": "x"},
		"spec": map[string]any{"strategy": "ExternalUpdate", "fallback": "None", "targets": targets, "ignorePaths": paths},
	}) {
		t.Error(problem)
	}
}
