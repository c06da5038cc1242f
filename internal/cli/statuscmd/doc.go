// Package statuscmd is windlass status: it shows how an upgrade stands, once or until it ends.
package statuscmd
