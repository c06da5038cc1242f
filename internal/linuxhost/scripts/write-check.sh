# Prints the first file that is not as it should be. FILES has lines as for write.sh.
source lib-check.sh
while read -r path _ owner _ mode sum _; do
  path=$(base64 -d <<<"$path")
  [ ! -L "$path" ] && [ "$(digest "$path")" = "$sum" ] &&
    [ "$(stat -c %U:%G:%a "$path")" = "$owner:$mode" ] || { echo "$path differs"; exit 1; }
done <<<"$FILES"
