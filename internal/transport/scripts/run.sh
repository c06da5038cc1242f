# shellcheck shell=bash
# Reads a script of $1 characters from stdin, byte for byte, and runs it. What follows it on stdin
# is the script's. A script that is cut off does not run.
IFS= read -r -N "$1" windlass || exit 255
eval "unset windlass; set --; $windlass"
