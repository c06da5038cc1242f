# Prints the first file that is not as it should be. FILES has lines of path in base64, owner, mode
# as stat prints it, and digest.
source lib-check.sh
while read -r path owner mode sum; do
  path=$(base64 -d <<<"$path")
  [ ! -L "$path" ] && [ "$(digest "$path")" = "$sum" ] &&
    [ "$(stat -c %U:%G:%a "$path")" = "$owner:$mode" ] || { echo "$path differs"; exit 1; }
done <<<"$FILES"
