package clustercheck_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windlass-dev/windlass/internal/clustercheck"
)

// hidden is an error that hides the kinds of the error below it.
type hidden struct{ below error }

func (h *hidden) Error() string { return "hidden: " + fmt.Sprint(h.below) }
func (h *hidden) Cause() error  { return h.below }

// answered is the error that client-go makes of an answer that is no Status.
func answered(code int) error {
	return apierrors.NewGenericServerResponse(
		code, "GET", schema.GroupResource{Resource: "pods"}, "", "404 page not found", 0, true)
}

// failed is the error of a request without an answer.
func failed(err error) error {
	return &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/api/v1/nodes", Err: err}
}

// TestFixUnread: each class of errors has its own way out, and only what is forbidden is a question
// of rights.
func TestFixUnread(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	const rights = "let the user of the Cluster's kubeconfig read this"
	tests := map[string]struct {
		err  error
		want string
	}{
		"forbidden":      {apierrors.NewForbidden(pods, "a", errors.New("no role")), rights},
		"unauthorized":   {apierrors.NewUnauthorized("expired"), "renew the credentials"},
		"kind":           {answered(http.StatusNotFound), "whether a CustomResourceDefinition"},
		"kind unmapped":  {&meta.NoKindMatchError{}, "whether a CustomResourceDefinition"},
		"object":         {apierrors.NewNotFound(pods, "a"), clustercheck.FixGone},
		"young":          {apierrors.NewInternalError(errors.New("etcd")), "wait until the API server answers"},
		"unavailable":    {answered(http.StatusServiceUnavailable), "wait until the API server answers"},
		"slow":           {apierrors.NewTimeoutError("slow", 1), "wait until the API server answers"},
		"throttled":      {apierrors.NewTooManyRequests("slow", 1), "wait until the API server answers"},
		"bad request":    {apierrors.NewBadRequest("continue"), "correct what the message names"},
		"refused":        {failed(syscall.ECONNREFUSED), "check the way from here"},
		"no route":       {failed(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}), "check the way from here"},
		"timeout":        {failed(context.DeadlineExceeded), "check the way from here"},
		"limit of check": {context.DeadlineExceeded, "check the way from here"},
		"another CA": {
			failed(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "has the CA",
		},
		"expired":    {failed(x509.CertificateInvalidError{Reason: x509.Expired}), "has the CA"},
		"other name": {failed(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}), "has the CA"},
		"alert":      {failed(errors.New("remote error: tls: bad certificate")), "has the CA"},
		"hidden":     {&hidden{apierrors.NewForbidden(pods, "a", errors.New("no role"))}, rights},
		"nothing":    {&hidden{}, "correct what the message names"},
		"other":      {errors.New("the answer is no list of pods"), "correct what the message names"},
	}
	for name, test := range tests {
		err := fmt.Errorf("reading Pods: %w", test.err)
		got := clustercheck.FixUnread(clustercheck.ClusterUser, err)
		if !strings.HasPrefix(got, test.want) && !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if name != "forbidden" && name != "hidden" && strings.Contains(got, rights) {
			t.Errorf("%s is told as a question of rights", name)
		}
	}
	away := clustercheck.FixUnread(clustercheck.ManagementUser, failed(syscall.ECONNREFUSED))
	if !strings.Contains(away, "the management cluster") {
		t.Errorf("without the management cluster: %q", away)
	}
}

// TestFixConnect: the Secret of a kubeconfig that does not exist appears later; one that may not be
// read is a question of rights. An error that tells what to do stays.
func TestFixConnect(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"missing":   {apierrors.NewNotFound(secrets, "a"), "Fix: wait until the control plane is initialized"},
		"forbidden": {apierrors.NewForbidden(secrets, "a", nil), "Fix: let your user of the management cluster read"},
		"told":      {errors.New("it has no current context. Fix: set it"), "Fix: set it"},
	} {
		got := clustercheck.FixConnect(&hidden{test.err}).Error()
		if !strings.Contains(got, test.want) || strings.Count(got, "Fix: ") != 1 {
			t.Errorf("%s: %s", name, got)
		}
	}
}
