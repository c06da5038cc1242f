package devplane

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// tokenValidity is that of the plane's certificates: nothing renews the token of a process.
const tokenValidity = 365 * 24 * time.Hour

// auditPolicy records who asked for what, of ServiceAccounts only. Requests of the plane's own parts are far more.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// auditAllPolicy records the requests of everybody but the API server itself.
const auditAllPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: None, users: ["system:apiserver"]}
- {level: Metadata}
`

// enableAudit writes the API server's audit policy, and returns the arguments that name it.
func enableAudit(config Config, l layout) ([]string, error) {
	policy := auditPolicy
	if config.AuditAll {
		policy = auditAllPolicy
	}
	if err := writeFile(l.auditPolicy(), []byte(policy)); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + l.auditPolicy(), "--audit-log-path=" + l.auditLog()}, nil
}

// authenticate installs the objects that a ServiceAccount has its rights from, and waits until the API
// server grants them all. It returns the path of a kubeconfig with a token for the account.
func (s *supervisor) authenticate(
	ctx context.Context, process string, account types.NamespacedName, objects []json.RawMessage,
) (string, error) {
	api, err := s.newAPI()
	if err != nil {
		return "", err
	}
	for _, object := range objects {
		if err := api.applyObject(ctx, object); err != nil {
			return "", err
		}
	}
	if err := s.awaitRights(ctx, account, objects); err != nil {
		return "", err
	}
	return s.writeAccount(ctx, process, account)
}

// applyObject applies an encoded object of a built-in kind.
func (a *api) applyObject(ctx context.Context, data []byte) error {
	var object unstructured.Unstructured
	if err := json.Unmarshal(data, &object.Object); err != nil {
		return fmt.Errorf("decoding an object: %w", err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if object.GetNamespace() == "" {
		return a.apply(ctx, resource, object.GetName(), data)
	}
	force := true
	_, err := a.dynamic.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
		types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return fmt.Errorf("applying %s %s/%s: %w", resource.Resource, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// awaitRights waits until an account has the rights of all roles among objects: the API server reads
// roles asynchronously, and aggregates some of them.
func (s *supervisor) awaitRights(ctx context.Context, account types.NamespacedName, objects []json.RawMessage) error {
	wanted, err := computeRules(objects)
	if err != nil || len(wanted) == 0 {
		return err
	}
	config, err := s.adminConfig()
	if err != nil {
		return err
	}
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var missing []rbacv1.PolicyRule
	err = wait.PollUntilContextCancel(ctx, servedPollPeriod, true, func(ctx context.Context) (bool, error) {
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: account.Namespace},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("reading the rights of %s: %w", account, err)
		}
		var granted []rbacv1.PolicyRule
		for _, rule := range review.Status.ResourceRules {
			granted = append(granted, rbacv1.PolicyRule{
				APIGroups: rule.APIGroups, Resources: rule.Resources, Verbs: rule.Verbs, ResourceNames: rule.ResourceNames,
			})
		}
		var all bool
		all, missing = validation.Covers(granted, wanted)
		return all, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the rights of %s, missing %v: %w", account, missing, err)
	}
	return nil
}

// computeRules returns the rules of all roles among encoded objects.
func computeRules(objects []json.RawMessage) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for _, data := range objects {
		var role rbacv1.ClusterRole
		if err := json.Unmarshal(data, &role.TypeMeta); err != nil {
			return nil, fmt.Errorf("decoding an object: %w", err)
		}
		if role.GroupVersionKind().Group != rbacv1.GroupName || (role.Kind != "ClusterRole" && role.Kind != "Role") {
			continue
		}
		if err := json.Unmarshal(data, &role); err != nil {
			return nil, fmt.Errorf("decoding a role: %w", err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules, nil
}

// writeAccount writes a kubeconfig for a process of the plane, with a token for a ServiceAccount.
func (s *supervisor) writeAccount(ctx context.Context, process string, account types.NamespacedName) (string, error) {
	config, err := s.adminConfig()
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	seconds := int64(tokenValidity / time.Second)
	token, err := client.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for %s: %w", account, err)
	}
	s.mu.Lock()
	creds := s.creds
	s.mu.Unlock()
	path := s.layout.clientKubeconfig(process)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making the directory of a kubeconfig: %w", err)
	}
	data, err := clientcmd.Write(kubeconfig(creds.server, account.Name, creds.ca.PEM(), clientcmdapi.AuthInfo{Token: token.Status.Token}))
	if err != nil {
		return "", fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return path, writeFile(path, data)
}
