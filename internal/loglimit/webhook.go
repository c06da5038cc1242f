package loglimit

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Webhook bounds the lines that callers of a webhook cause, about requests that cannot be read, too.
// Lines about a request are about its namespace as the tenant. It is called before the webhook serves.
func (l *Lines) Webhook(webhook *admission.Webhook) {
	construct := webhook.LogConstructor
	if construct == nil {
		construct = admission.DefaultLogConstructor
	}
	webhook.LogConstructor = func(base logr.Logger, request *admission.Request) logr.Logger {
		if request == nil {
			return construct(l.Limit(base, ""), nil)
		}
		return construct(l.Limit(base, request.Namespace), identity(request))
	}
}

// identity is a request with only the texts that lines about it have. They are bounded first, so that
// no text is copied that a line has no room for.
func identity(request *admission.Request) *admission.Request {
	short := func(s string) string { return boundText(s, maxText) }
	var r admission.Request
	r.UID = types.UID(short(string(request.UID)))
	r.Namespace, r.Name = short(request.Namespace), short(request.Name)
	r.Resource.Group, r.Resource.Version = short(request.Resource.Group), short(request.Resource.Version)
	r.Resource.Resource = short(request.Resource.Resource)
	r.UserInfo.Username = short(request.UserInfo.Username)
	return &r
}
