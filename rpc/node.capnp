@0xb475c73f7746e467;
# The API of a node, as capabilities. `apid` hands an authenticated client a Cluster; everything else follows from it,
# and calls can be pipelined: cluster.node("10.0.0.3").machine().version() is one round trip. The role that a method
# needs is its $allow annotation; common/wire/roles.h enforces it as a membrane. A call that its caller drops is
# cancelled on the server ($Cxx.allowCancellation in every file): work that must not stop half-way (a sequence, a write)
# is therefore not owned by the method that requests it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;
using import "annotations.capnp".joining;
using import "stream.capnp".LogSince;
using import "stream.capnp".LogSink;
using Machine = import "machine.capnp".Machine;
using Services = import "machine.capnp".Services;
using Events = import "machine.capnp".Events;
using Files = import "files.capnp".Files;
using Resources = import "resources.capnp".Resources;
using Network = import "network.capnp".Network;
using Configuration = import "configuration.capnp".Configuration;
using Storage = import "storage.capnp".Storage;
using Containers = import "containers.capnp".Containers;
using Upgrades = import "upgrade.capnp".Upgrades;
using Etcd = import "etcd.capnp".Etcd;
using Kubernetes = import "kubernetes.capnp".Kubernetes;

interface Cluster {
  # The bootstrap capability of TCP 50000.

  node @0 (address :Text, request :Text) -> (node :Node) $allow("os:reader or os:etcd:backup") $maintenance $joining;
  # Returns the node at this address, through this one. An empty address, or one of this node: this node. `address` is a
  # name or an IP without a port. The other machine's apid is reached over mutual TLS; the caller's roles go with the
  # call, so forwarding never adds a right. A name is that of a Node object of Kubernetes (Members), or its first label.
  # FailedPrecondition if two nodes have the name or the address, or if the certificate at the address lacks the name,
  # or is not that of a control-plane node although the member is one; use the IP address then. `request`: an id that
  # names all calls made with this Node in the logs of every program that serves them (common/wire/request-id.h);
  # without a valid id, apid makes a new one.

  withRoles @1 (roles :List(Text), caller :Caller) -> (cluster :Cluster) $allow("os:reader or os:etcd:backup") $joining;
  # Returns the same cluster, with no more than these roles. An apid that forwards calls makes this call first: its own
  # certificate carries os:impersonator, which may do nothing else. `caller` is for the audit log of the other machine,
  # and is accepted from os:impersonator only.
}
struct Caller { name @0 :Text; address @1 :Text; }     # CN of its certificate; its address

interface Node {
  # Programs other than machined serve network(), etcd() and kubernetes(): one client may have 16 calls to them under
  # way, all clients together 128. ResourceExhausted beyond.

  machine @0 () -> (machine :Machine) $allow("os:reader") $maintenance $joining;
  services @1 () -> (services :Services) $allow("os:reader") $joining;
  events @2 () -> (events :Events) $allow("os:reader");
  logs @3 () -> (logs :Logs) $allow("os:reader");
  files @4 () -> (files :Files) $allow("os:reader");
  resources @5 () -> (resources :Resources) $allow("os:reader");
  # Without the types that are marked sensitive.

  network @6 () -> (network :Network) $allow("os:reader") $maintenance;
  sensitiveResources @7 () -> (resources :Resources) $allow("os:admin");
  # All types, secrets included.

  configuration @8 () -> (configuration :Configuration) $allow("os:reader") $maintenance;
  storage @9 () -> (storage :Storage) $allow("os:reader") $maintenance;
  containers @10 () -> (containers :Containers) $allow("os:reader");
  upgrades @11 () -> (upgrades :Upgrades) $allow("os:reader");
  etcd @12 () -> (etcd :Etcd) $allow("os:reader or os:etcd:backup");
  kubernetes @13 () -> (kubernetes :Kubernetes) $allow("os:reader");
}

interface Logs {
  list @0 () -> (ids :List(Text)) $allow("os:reader");
  # Returns the ids of the logs that read() knows.

  read @1 (id :Text, follow :Bool, tailLines :Int32 = -1, from :UInt64, sink :LogSink, contains :Text,
      since :LogSince) -> () $allow("os:reader");
  # Sends the log of a service (its id), of `machined`, or of `controller-runtime`. Returns at the
  # end of the log, or, with `follow`, when the caller drops the call.
  # `tailLines` < 0: all lines that are kept. `contains`: only lines with this text; `since`: only
  # newer lines; `tailLines` counts only these lines. `from` > 0: from this position (a `next` of
  # LogSink) instead of `tailLines` and `since`.
  # Errors: NotFound for an unknown id. ResourceExhausted beyond the streams that one client, or the
  # node, may have open.
  # Repeat: safe; with the last `next` as `from`, a call continues after the last line that was
  # received.

  kernel @2 (follow :Bool, onlyNew :Bool, fromSequence :UInt64, sink :LogSink, contains :Text, since :LogSince) -> ()
      $allow("os:reader");
  # Sends /dev/kmsg as lines "facility: priority: [RFC 3339 time]: message"; `next` is the sequence
  # number + 1. `contains`, `since` and `follow` are those of read().
  # Errors: Unavailable when /dev/kmsg cannot be read. ResourceExhausted beyond the readers of this
  # log that one client, or the node, may have open.

  previous @3 (id :Text, boot :Text, tailLines :Int32 = -1, sink :LogSink, contains :Text) -> () $allow("os:reader");
  # Sends a log of an earlier boot, as far as STATE has it; empty `boot`: the one before this. Also
  # sends the log `kernel-last-words`.
  # Errors: FailedPrecondition without a STATE. NotFound for an unknown boot or log. Unavailable
  # while STATE is not mounted yet, or the node shuts down. DeadlineExceeded when the disk does not
  # answer. ResourceExhausted beyond the reads that may be open.
}
