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
cat <<EOT

The node is up. Commands to try next:
  export TALOSCONFIG=$TALOSCONFIG
  $talosctl dmesg            $talosctl logs machined       $talosctl events --tail -1
  $talosctl ls -l /etc       $talosctl processes           $talosctl get services -o yaml
  $talosctl service apid     $talosctl reboot              make demo-destroy
EOT
