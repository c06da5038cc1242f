package manifest

import (
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/json"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// FailureError is a response in which the extension itself says that there is no plan.
type FailureError struct {
	Origin Origin
	// Message is the extension's.
	Message string
}

func (e *FailureError) Error() string {
	return fmt.Sprintf("%s: the extension answered with status Failure: %s", e.Origin, e.Message)
}

// DecodeResponse reads the one GenerateUpgradePlanResponse in a file; name is what errors call the file. It is as strict as
// Cluster API about the status, and stricter about the rest: a field that Cluster API would ignore is a slip of the pen
// here. Only apiVersion and kind may be missing, because they are on the wire too. The error is an *Error or a *FailureError.
func DecodeResponse(name string, data []byte) (plan.Response, error) {
	documents := splitDocuments(name, data)
	if len(documents) != 1 {
		return plan.Response{}, &Error{Origin: Origin{File: name}, Problem: fmt.Sprintf("it must hold one GenerateUpgradePlanResponse, not %d documents", len(documents))}
	}
	origin := documents[0].origin
	values, err := documents[0].values()
	if err != nil {
		return plan.Response{}, err
	}
	if len(values) != 1 || values[0][0] != '{' {
		return plan.Response{}, &Error{Origin: origin, Problem: "it must hold one GenerateUpgradePlanResponse, which is an object"}
	}
	var response runtimehooksv1.GenerateUpgradePlanResponse
	if err := unmarshal(origin, values[0], &response); err != nil {
		return plan.Response{}, err
	}
	if err := checkResponseKind(origin, &response); err != nil {
		return plan.Response{}, err
	}
	if unknown, err := json.UnmarshalStrict(values[0], &runtimehooksv1.GenerateUpgradePlanResponse{}); err != nil || len(unknown) > 0 {
		if err == nil {
			err = unknown[0]
		}
		return plan.Response{}, &Error{Origin: origin, Problem: err.Error() + "; Cluster API would ignore it", Err: err}
	}
	return convertResponse(origin, &response)
}

func checkResponseKind(origin Origin, response *runtimehooksv1.GenerateUpgradePlanResponse) error {
	const kind = "GenerateUpgradePlanResponse"
	if response.Kind != "" && response.Kind != kind {
		return &Error{Origin: origin, Field: "kind", Problem: fmt.Sprintf("it is %q and must be %s", response.Kind, kind)}
	}
	want := runtimehooksv1.GroupVersion.String()
	if response.APIVersion != "" && response.APIVersion != want {
		return &Error{Origin: origin, Field: "apiVersion", Problem: fmt.Sprintf("it is %q and must be %s", response.APIVersion, want)}
	}
	return nil
}

func convertResponse(origin Origin, response *runtimehooksv1.GenerateUpgradePlanResponse) (plan.Response, error) {
	switch response.Status {
	case runtimehooksv1.ResponseStatusSuccess:
	case runtimehooksv1.ResponseStatusFailure:
		message := response.Message
		if message == "" {
			message = "it gave no message"
		}
		return plan.Response{}, &FailureError{Origin: origin, Message: message}
	default:
		return plan.Response{}, &Error{Origin: origin, Field: "status", Problem: fmt.Sprintf("it is %q and must be Success or Failure", response.Status)}
	}
	controlPlane, err := convertSteps(origin, "controlPlaneUpgrades", response.ControlPlaneUpgrades)
	if err != nil {
		return plan.Response{}, err
	}
	workers, err := convertSteps(origin, "workersUpgrades", response.WorkersUpgrades)
	if err != nil {
		return plan.Response{}, err
	}
	return plan.Response{ControlPlane: controlPlane, Workers: workers}, nil
}

func convertSteps(origin Origin, field string, steps []runtimehooksv1.UpgradeStep) ([]version.Version, error) {
	versions := make([]version.Version, 0, len(steps))
	for i, step := range steps {
		v, err := version.Parse(step.Version)
		if err != nil {
			return nil, &Error{Origin: origin, Field: fmt.Sprintf("%s[%d].version", field, i), Problem: err.Error(), Err: err}
		}
		versions = append(versions, v)
	}
	return versions, nil
}
