# lacks.sh PROGRAM NAMES   fails, naming them, if the program has functions with one of these in their names
# (alternatives of a regular expression).
found=$(llvm-nm-19 --just-symbol-name --defined-only "$1" | grep -E "$2" | llvm-cxxfilt-19 | head -n 5)
[ -z "$found" ] && exit 0
echo "${1##*/} contains functions that it must not have (talos_lacks in its CMakeLists.txt):" >&2
echo "$found" >&2
exit 1
