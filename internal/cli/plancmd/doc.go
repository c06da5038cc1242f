// Package plancmd is windlass plan and windlass plan check.
package plancmd
