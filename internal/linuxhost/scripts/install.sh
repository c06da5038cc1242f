# Puts a binary in its place: written beside, synced, verified, renamed. At every moment there is a
# whole binary. TELL are the arguments with which the binary prints its version.
source lib-job.sh
source lib-kept.sh
keep_node
new="$BIN/.windlass-$BINARY.new"
rm -f "$new"
cp "$STAGED" "$new"
chmod 0755 "$new"
sync "$new"
[ "$(digest "$new")" = "$DIGEST" ] ||
  fail WrongDigest "what was written to $new is not what the manifest says"
read -r -a arguments <<<"$TELL"
told=$("$new" "${arguments[@]}" 2>&1) ||
  fail WrongVersion "$BINARY does not run on this host: $told"
case " $told " in
  *[!0-9a-z.+-]"$TARGET"[!0-9a-z.+-]*) ;;
  *) fail WrongVersion "$BINARY says it is $told, not $TARGET" ;;
esac
mv "$new" "$BIN/$BINARY"
sync "$BIN"
