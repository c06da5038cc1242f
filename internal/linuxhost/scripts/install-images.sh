# Puts archives of images where the service imports them from when it starts, and removes the same
# archive in another compression. ARCHIVES has a line for each: its name and its digest. The old
# service may see an archive, and imports it then, which does no harm.
source lib-job.sh
source lib-archives.sh
source lib-disk.sh
mkdir -p "$placed" "$images"
new=$images/.windlass-new
while read -r name sum; do
  file=$STATE/binaries/$VERSION/$name
  is_placed "$name" "$sum" && continue
  [ "$(digest "$file")" = "$sum" ] || {
    rm -f "$file"
    fail WrongDigest "$name on the host was damaged, and is fetched again"
  }
  chmod 0644 "$file"
  rm -f "$new"
  # What waits stays until the upgrade is done: it may be needed again after a power cut.
  ln "$file" "$new" 2>/dev/null || cp -p "$file" "$new"
  sync "$new"
  sum_of "$new" "$sum" >"$placed/$name"
  sync "$placed/$name"
  mv "$new" "$images/$name"
  sync "$images"
  for old in "$images/${name%%.tar*}".tar*; do
    [ "$old" = "$images/$name" ] || rm -f "$old" "$placed/$(basename "$old")"
  done
done <<<"$ARCHIVES"
