// Package doctorcmd is windlass doctor: it reads what decides whether a Cluster's machines can be updated in place.
package doctorcmd
