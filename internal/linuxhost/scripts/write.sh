# Writes files: beside, synced, renamed. It leaves those alone that are as they should be.
#
# FILES has lines of path, allowed prefix, owner, permissions, mode as stat prints it, digest and
# content. Path, prefix and content are in base64; the content has an = in front, because it may be
# empty. PROTECTED has patterns of what no path may lead to.
source lib-job.sh
source lib-kept.sh
keep_node

# Nobody but root may be able to change what a path leads to: each folder on the way belongs to
# root, and only root can write to it. So nobody can replace a folder between the check and the
# write.
#
# Where a POSIX ACL exists, the bits of the group are its mask: no user or group that the ACL names
# can write without them. So they tell enough, and no host needs getfacl. A group can write to no
# folder, not even the group root: it may have other members.
trusted() {
  local uid mode
  read -r uid mode < <(stat -c '%u %a' "$1")
  [ "$uid" = 0 ] && [ $((0$mode & 0022)) = 0 ] ||
    refuse "$2" "not only root can write to $(readlink -f "$1"). Fix: give it to root, and run chmod \
go-w on it"
}
refuse() { fail FileRefused "$1 cannot be written: $2"; }

# enter PATH PREFIX goes to the folder of a file, and creates the folders that are missing. No
# folder below the allowed prefix is a symbolic link. A link above the prefix was made by root, and
# where it leads must not be protected.
enter() {
  local path=$1 below=$2 rest=${1#/} walked='' part real line
  cd /
  trusted / "$path"
  while [ "${rest#*/}" != "$rest" ]; do
    part=${rest%%/*} rest=${rest#*/}
    walked=$walked/$part
    if [ -L "./$part" ]; then
      [[ $below == "$walked" || $below == "$walked/"* ]] ||
        refuse "$path" "$walked is a symbolic link"
    elif [ ! -e "./$part" ]; then
      mkdir "./$part"
    elif [ ! -d "./$part" ]; then
      refuse "$path" "$walked is not a folder"
    fi
    cd -P "./$part"
    trusted . "$path"
  done
  real=$(pwd -P)
  while trusted "$real" "$path"; [ "$real" != / ]; do real=$(dirname "$real"); done
  real=$(pwd -P)/$rest
  while read -r line; do
    [ -n "$line" ] || continue
    # shellcheck disable=SC2053 # The line is a pattern.
    [[ ${real,,} != ${line,,} && ${real,,} != "${line,,}"/* ]] ||
      refuse "$path" "it leads to $real"
  done <<<"$PROTECTED"
}

while read -r path below owner permissions mode sum content; do
  path=$(base64 -d <<<"$path") below=$(base64 -d <<<"$below")
  enter "$path" "$below"
  name=./${path##*/}
  if [ -L "$name" ] || { [ -e "$name" ] && [ ! -f "$name" ]; }; then
    refuse "$path" "it is not a regular file"
  fi
  if [ "$(digest "$name")" = "$sum" ] && [ "$(stat -c %U:%G:%a "$name")" = "$owner:$mode" ]; then
    continue
  fi
  [ -e "$name" ] || note_created "$path"
  new=./.windlass-new
  rm -f "$new"
  # A default ACL of the folder has the effect that umask does not count. Who opens the file before
  # its mode is set can write to it later.
  (umask 077; : >"$new")
  trusted "$new" "$path"
  base64 -d <<<"${content#=}" >"$new"
  chown "$owner" "$new"
  chmod "$permissions" "$new"
  sync "$new"
  mv -T "$new" "$name"
  sync .
done <<<"$FILES"
cd /
