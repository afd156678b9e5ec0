#!/bin/bash
# What `make demo` shows of a node that runs: its services, its version, and how to go on.
set -euo pipefail
talosctl=$1
state=${HOME:-/root}/.talos/clusters/demo
export TALOSCONFIG=$state/talosconfig
echo
"$talosctl" services
echo
"$talosctl" version
cat <<EOT

The node is up. To go on:
  export TALOSCONFIG=$TALOSCONFIG
  $talosctl dmesg            $talosctl logs machined       $talosctl events --tail -1
  $talosctl ls -l /etc       $talosctl processes           $talosctl get services -o yaml
  $talosctl service apid     $talosctl reboot              make demo-destroy
EOT
