#!/bin/sh
# Gives the node the CNI plugins of this image, each whole or not at all.
set -e
target=/host/opt/cni/bin
for plugin in /opt/cni/bin/*; do
  name=${plugin##*/}
  cp "$plugin" "$target/.$name.new"
  mv "$target/.$name.new" "$target/$name"
done
