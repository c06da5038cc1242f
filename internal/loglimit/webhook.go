package loglimit

import (
	"github.com/go-logr/logr"
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
		tenant := ""
		if request != nil {
			tenant = request.Namespace
		}
		return construct(l.Limit(base, tenant), request)
	}
}
