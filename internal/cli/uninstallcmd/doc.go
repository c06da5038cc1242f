// Package uninstallcmd is windlass uninstall --check: it reads what is left of Windlass.
package uninstallcmd
