#!/bin/bash
# The last step of `make demo`: shows the services and the version of the node, and commands to try next.
set -euo pipefail
talosctl=$1
state=${HOME:-/root}/.talos/clusters/demo
export TALOSCONFIG=$state/talosconfig
echo
"$talosctl" services
echo
"$talosctl" version
# A node in a container has no kernel log.
log="$talosctl dmesg"
pattern='"provisioner": *"container"'
if [[ "$("$talosctl" cluster show --name demo -o json)" =~ $pattern ]]; then
  log="$talosctl cluster console --name demo demo-master-1"
fi
cat <<EOT

The node is up. Commands to try next:
  export TALOSCONFIG=$TALOSCONFIG
  $log
  $talosctl logs machined       $talosctl events --tail -1
  $talosctl ls -l /etc       $talosctl processes           $talosctl get services -o yaml
  $talosctl service apid     $talosctl reboot              make demo-destroy
EOT
