# All archives are in their places. ARCHIVES has a line for each: its name and its digest.
source lib-check.sh
source lib-archives.sh
images_settled && exit 0
while read -r name sum; do is_placed "$name" "$sum" || exit 1; done <<<"$ARCHIVES"
