// Package verifycmd is windlass verify: it explores everything that can happen to an upgrade.
package verifycmd
