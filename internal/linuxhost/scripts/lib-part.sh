source lib-known.sh
# accept_part makes the part of a file that arrived whole the file. A part with another digest is
# removed: nothing would ever make it right.
accept_part() {
  local found
  sync "$PART"
  found=$(digest "$PART")
  if [ "$found" != "$DIGEST" ]; then
    rm -f "$PART"
    fail WrongDigest "$(basename "$FILE") has the SHA-256 $found, but the manifest says $DIGEST"
  fi
  chmod 0755 "$PART"
  sum_of "$PART" "$DIGEST" >"$FILE.sum"
  sync "$FILE.sum"
  mv "$PART" "$FILE"
  sync "$(dirname "$FILE")"
}
