# The Pods that the kubelet reads from files. They are read without a program for each.

# pod_in FILE sets pod to the namespace and the name of the Pod that a file of YAML in block style
# defines, or to nothing. The kubelet reads the first document, and a Pod without a namespace is in
# default.
pod_in() {
  local LC_ALL=C line text width indent='' inside='' kind='' name='' namespace=default
  pod=
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line%$'\r'} text=${line#"${line%%[! ]*}"}
    case "$text" in '' | \#*) continue ;; esac
    width=$((${#line} - ${#text}))
    text=${text%%[[:space:]]#*} text=${text//[\"\'[:space:]]/}
    if [ $width -eq 0 ]; then
      [ -z "$kind" ] || [ -z "$name" ] || break
      case "$text" in
        ---* | ...*) [ -z "$kind$name" ] || break ;;
        kind:*) kind=${text#kind:} ;;
      esac
      inside='' indent=''
      [ "$text" != metadata: ] || inside=yes
    elif [ -n "$inside" ]; then
      indent=${indent:-$width}
      [ "$width" -eq "$indent" ] || continue
      case "$text" in
        name:*) name=${text#name:} ;;
        namespace:?*) namespace=${text#namespace:} ;;
      esac
    fi
  done <"$1"
  [ "$kind" != Pod ] || [ -z "$name" ] || pod="$namespace/$name"
}

# static_pods FOLDER sets found to what each file of a folder defines: a Pod and a path a line. The
# kubelet reads every file whose name does not begin with a dot, whatever its extension.
static_pods() {
  local file pod text=''
  for file in "$1"/*; do
    case "$file" in */.* | *$'\n'*) continue ;; esac
    [ -f "$file" ] && [ -r "$file" ] || continue
    pod_in "$file"
    # All facts together must fit into what is kept of the output.
    [ ${#text} -lt 12288 ] || break
    [ -z "$pod" ] || text+="$pod $file"$'\n'
  done
  # shellcheck disable=SC2034 # facts-kubeadm prints it.
  found=$text
}
