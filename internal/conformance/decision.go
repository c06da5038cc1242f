package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// decisionHook is CanUpdateMachine or CanUpdateMachineSet.
type decisionHook struct {
	name, id string
	scope    cover.Scope
	// parts are the names of the objects in requests, in the order of cover.Objects.
	parts [3]string
	// spec is the way to the spec that counts.
	spec []string
}

var decisionHooks = []decisionHook{
	{"CanUpdateMachine", "can-update-machine", cover.Machine, [3]string{"machine", "infrastructureMachine", "bootstrapConfig"}, []string{"spec"}},
	{
		"CanUpdateMachineSet", "can-update-machine-set", cover.MachineSet,
		[3]string{"machineSet", "infrastructureMachineTemplate", "bootstrapConfigTemplate"},
		[]string{"spec", "template", "spec"},
	},
}

// decision is a hook's response.
type decision struct {
	status  runtimehooksv1.ResponseStatus
	message string
	patches cover.Patches
}

// answers are what a hook said to the fixture's request, and whether it was asked.
type answers struct {
	first *decision
	err   error
}

// decide sends a request to a hook.
func (k *kit) decide(ctx context.Context, hook decisionHook, request map[string]any) (*decision, error) {
	if hook.scope == cover.Machine {
		response := &runtimehooksv1.CanUpdateMachineResponse{}
		err := k.call(ctx, hook.name, request, response)
		return &decision{response.Status, response.Message, updaters.MachinePatches(response)}, err
	}
	response := &runtimehooksv1.CanUpdateMachineSetResponse{}
	err := k.call(ctx, hook.name, request, response)
	return &decision{response.Status, response.Message, updaters.MachineSetPatches(response)}, err
}

func decisionPoints() []definition {
	var points []definition
	for _, hook := range decisionHooks {
		run := func(check decisionCheck) func(context.Context, *kit) outcome {
			return func(ctx context.Context, k *kit) outcome {
				request, skip := k.decisionRequest(hook)
				if skip.status != "" {
					return skip
				}
				return check(ctx, k, hook, request)
			}
		}
		points = append(points,
			definition{hook.id + ".patches", "patches apply, and change nothing in a spec but to what is desired", sourceHooks + hook.name, run(ofCovered(checkPatches))},
			definition{hook.id + ".repeatable", "the same request gets the same answer", sourceExtensions + "Deterministic result", run(ofCovered(checkRepeatable))},
			definition{hook.id + ".nothing-to-do", "where nothing differs, nothing is covered", sourceProposal + "Deciding the update strategy", run(checkNothing)},
			definition{hook.id + ".not-covered", "a difference that it does not know gets Success, and no wrong patch", sourceProposal + "Deciding the update strategy", run(checkNotCovered)},
			definition{hook.id + ".unknown-fields", "fields that it does not know change nothing", "Cluster API proposal 20220221-runtime-SDK, Runtime SDK rules (compatible changes add fields)", run(ofCovered(checkUnknownFields))},
			definition{hook.id + ".timing", "it answers within its timeout", sourceExtensions + "Timeouts", run(checkTiming)},
		)
	}
	return points
}

// decisionCheck is how a point about a hook is tested with a request that it may change.
type decisionCheck = func(context.Context, *kit, decisionHook, map[string]any) outcome

// ofCovered is for points that are about the patches of the fixture's request: where the updater gave none, that nothing is
// wrong with them says nothing.
func ofCovered(check decisionCheck) decisionCheck {
	return func(ctx context.Context, k *kit, hook decisionHook, request map[string]any) outcome {
		result := check(ctx, k, hook, request)
		if result.status == Pass && k.coversNothing(hook) {
			return skipped("%s", coversNothingWords)
		}
		return result
	}
}

const coversNothingWords = "covered nothing of the fixture: use --fixture with changes that yours covers"

// warnings are about the answers to the fixture's request that are not wrong, but not what a person may think either.
func (k *kit) warnings(hook decisionHook) []string {
	var found []string
	if k.coversNothing(hook) {
		found = append(found, hook.name+" "+coversNothingWords)
	}
	if ignored := k.uncompared[hook.name]; len(ignored) > 0 {
		names := text.Some{Most: 4}
		for _, field := range ignored {
			names.Add(text.Bound(strings.TrimSpace(string(field.Part)+" "+field.Path), maxFieldBytes))
		}
		found = append(found, fmt.Sprintf("%s patches fields that Cluster API does not compare, and that are ignored: %s. Fix: patch fields below /%s only",
			hook.name, names.Join(", "), strings.Join(hook.spec, "/")))
	}
	return found
}

// maxFieldBytes bounds the name of a field in a warning, because it is the updater's own text.
const maxFieldBytes = 128

// coversNothing reports whether a hook answered the fixture's request, and without covering anything of it.
func (k *kit) coversNothing(hook decisionHook) bool {
	asked := k.answers[hook.name]
	if asked == nil || asked.err != nil {
		return false
	}
	request, skip := k.decisionRequest(hook)
	if skip.status != "" {
		return false
	}
	result, err := apply(hook, request, asked.first)
	return err == nil && len(result.Plan) == 0
}

// decisionRequest gives a copy of the fixture's request, or why there is none.
func (k *kit) decisionRequest(hook decisionHook) (map[string]any, outcome) {
	if k.handlers[hook.name].name == "" {
		return nil, skipped("%s was not discovered", hook.name)
	}
	var request any
	if hook.scope == cover.Machine && k.options.Fixture.CanUpdateMachine != nil {
		request = k.options.Fixture.CanUpdateMachine
	}
	if hook.scope == cover.MachineSet && k.options.Fixture.CanUpdateMachineSet != nil {
		request = k.options.Fixture.CanUpdateMachineSet
	}
	if request == nil {
		return nil, skipped("the fixture has no request of %s", hook.name)
	}
	fields, err := asMap(request)
	if err != nil {
		return nil, failed("%v", err)
	}
	return fields, outcome{}
}

// ask sends the fixture's own request, once for all points.
func (k *kit) ask(ctx context.Context, hook decisionHook) (*decision, error) {
	if known := k.answers[hook.name]; known != nil {
		return known.first, known.err
	}
	asked := &answers{}
	request, skip := k.decisionRequest(hook)
	if skip.status != "" {
		return nil, errors.New(skip.reason)
	}
	asked.first, asked.err = k.decide(ctx, hook, request)
	k.answers[hook.name] = asked
	return asked.first, asked.err
}

// apply applies the patches of an answer to the request's objects.
func apply(hook decisionHook, request map[string]any, a *decision) (cover.Result, error) {
	if a.status != runtimehooksv1.ResponseStatusSuccess {
		return cover.Result{}, fmt.Errorf("the answer has the status %s: %s; an updater that covers nothing answers Success without patches", a.status, a.message)
	}
	var sides [2]cover.Objects
	for i, side := range []string{"current", "desired"} {
		objects, _ := request[side].(map[string]any)
		var encoded [3]json.RawMessage
		for j, part := range hook.parts {
			if objects[part] == nil {
				continue
			}
			var err error
			if encoded[j], err = json.Marshal(objects[part]); err != nil {
				return cover.Result{}, fmt.Errorf("writing %s %s: %w", side, part, err)
			}
		}
		sides[i] = cover.Objects{Machine: encoded[0], Infrastructure: encoded[1], Bootstrap: encoded[2]}
	}
	coverage, err := cover.New(hook.scope, sides[0], sides[1], nil)
	if err != nil {
		return cover.Result{}, fmt.Errorf("comparing the fixture's objects: %w", err)
	}
	coverage, err = coverage.Apply(cover.Updater{Name: "under test"}, a.patches)
	if err != nil {
		return cover.Result{}, err
	}
	return coverage.Result(), nil
}

// unanswered is the outcome of a point whose request got no answer. That it was not in time is a point of its own.
func unanswered(err error) outcome {
	if errors.Is(err, errSlow) {
		return skipped("%v", err)
	}
	return failed("%v", err)
}

func checkPatches(ctx context.Context, k *kit, hook decisionHook, request map[string]any) outcome {
	a, err := k.ask(ctx, hook)
	if err != nil {
		return unanswered(err)
	}
	result, err := apply(hook, request, a)
	if err != nil {
		return failed("%v", err)
	}
	k.uncompared[hook.name] = result.Uncompared
	return passed()
}

func checkRepeatable(ctx context.Context, k *kit, hook decisionHook, request map[string]any) outcome {
	first, err := k.ask(ctx, hook)
	if err != nil {
		return skipped("the first request got no answer")
	}
	again, err := k.decide(ctx, hook, request)
	if err != nil {
		return unanswered(err)
	}
	return compare(first, again)
}

// compare fails where two answers to the same question differ.
func compare(first, second *decision) outcome {
	switch {
	case first.status != second.status:
		return failed("the status was %s and is %s", first.status, second.status)
	case first.message != second.message:
		return failed("the message was %q and is %q; leave out what changes at every call", first.message, second.message)
	case !reflect.DeepEqual(first.patches, second.patches):
		return failed("the patches are others than before")
	}
	return passed()
}

func checkNothing(ctx context.Context, k *kit, hook decisionHook, request map[string]any) outcome {
	request["current"] = request["desired"]
	a, err := k.decide(ctx, hook, request)
	if err != nil {
		return unanswered(err)
	}
	result, err := apply(hook, request, a)
	if err != nil {
		return failed("%v", err)
	}
	if len(result.Plan) > 0 {
		return failed("it covers %s %s, which does not differ", result.Plan[0].Pointers[0].Part, result.Plan[0].Pointers[0].Path)
	}
	return passed()
}

// unknownField is the name of a field that no provider has.
const unknownField = "windlassConformance"

func checkNotCovered(ctx context.Context, k *kit, hook decisionHook, request map[string]any) outcome {
	desired, _ := request["desired"].(map[string]any)
	// Nothing else differs.
	request["current"] = desired
	changed := maps.Clone(desired)
	for _, part := range hook.parts[1:] {
		if object, ok := desired[part].(map[string]any); ok {
			changed[part] = with(object, hook.spec, unknownField, "an updater cannot know this")
		}
	}
	request["desired"] = changed
	a, err := k.decide(ctx, hook, request)
	if err != nil {
		return unanswered(err)
	}
	if _, err := apply(hook, request, a); err != nil {
		return failed("%v", err)
	}
	return passed()
}

// with returns a copy of an object in which a field below some others has a value.
func with(object map[string]any, way []string, field string, value any) map[string]any {
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	if len(way) == 0 {
		object[field] = value
		return object
	}
	inner, _ := object[way[0]].(map[string]any)
	object[way[0]] = with(inner, way[1:], field, value)
	return object
}

func checkUnknownFields(ctx context.Context, k *kit, hook decisionHook, request map[string]any) outcome {
	first, err := k.ask(ctx, hook)
	if err != nil {
		return skipped("the first request got no answer")
	}
	request[unknownField] = map[string]any{"a": []int{1}}
	for _, side := range []string{"current", "desired"} {
		if objects, ok := request[side].(map[string]any); ok {
			request[side] = with(objects, nil, unknownField, "a")
		}
	}
	again, err := k.decide(ctx, hook, request)
	if err != nil {
		return unanswered(err)
	}
	return compare(first, again)
}

func checkTiming(_ context.Context, k *kit, hook decisionHook, _ map[string]any) outcome {
	if err := k.slow[hook.name]; err != nil {
		return failed("%v", err)
	}
	return passed()
}
