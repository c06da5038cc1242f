# arrived ends a check with what is there of a file that waits to be installed: how much has
# arrived, and of how much, if that is known, or that FROM, the file on the host that would be
# copied, is missing. FROM is empty for other sources.
arrived() {
  if [ -n "$FROM" ] && [ ! -f "$FROM" ]; then
    printf 'missing %s\n' "$FROM"
  else
    printf 'part %s %s\n' "$(stat -c %s "$PART" 2>/dev/null || echo 0)" \
      "$([ -z "$FROM" ] || stat -Lc %s "$FROM")"
  fi
  exit 1
}

# waits ends a check of an archive that is there whole.
waits() {
  printf 'part %s %s\n' "$(stat -c %s "$FILE")" "$(stat -c %s "$FILE")"
  exit 0
}
