// Package ssh runs scripts on hosts over SSH. A host's key must be pinned; there is no way around it. Nothing of an agent is used or forwarded.
package ssh
