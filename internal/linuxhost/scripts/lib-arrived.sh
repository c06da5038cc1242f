# arrived ends a check with what is there of a file that waits to be installed: how much has
# arrived, or that FROM, the file on the host that would be copied, is missing. FROM is empty for
# other sources.
arrived() {
  if [ -n "$FROM" ] && [ ! -f "$FROM" ]; then
    printf 'missing %s\n' "$FROM"
  else
    printf 'part %s\n' "$(stat -c %s "$PART" 2>/dev/null || echo 0)"
  fi
  exit 1
}
