#!/bin/bash
# Copies the system extensions that a user names to where extensions.sh, which runs inside the build root, can read them:
#   given-extensions.sh FOLDER EXTENSION…      FOLDER/1, FOLDER/2, …, in this order
# An extension is a path of an archive of its image or of a folder, or a reference in a registry, which is pulled inside.
set -euo pipefail
folder=$1
shift
rm -rf "$folder"
number=0
for extension; do
  number=$((number + 1))
  mkdir -p "$folder/$number"
  echo "$extension" >"$folder/$number/name"
  if [ -d "$extension" ]; then
    cp -a "$extension" "$folder/$number/folder"
  elif [ -e "$extension" ]; then
    cp "$extension" "$folder/$number/file"
  else
    case $extension in
      ./* | ../* | /* | *.tar) printf 'extensions: %s: no such file or folder\n' "$extension" >&2; exit 1 ;;
    esac
    : >"$folder/$number/reference"
  fi
done
