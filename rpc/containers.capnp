@0xba389502c6d6b736;
# The containers of a node, of Kubernetes and of the node itself, and their images.
# The services of the node itself are processes: machine.capnp.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "stream.capnp".LogSince;
using import "stream.capnp".LogSink;

interface Containers {
  # Unavailable as long as containerd does not run.

  list @0 (kubernetes :Bool) -> (containers :List(Container)) $allow("os:reader");
  # Lists the node's own containers that have a task, sorted by id; with `kubernetes`, the pods that are ready, sorted
  # by id, each followed by its containers.

  stats @1 () -> (stats :List(ContainerStat)) $allow("os:reader");
  # Returns figures of pods and their containers, if they have any; Machine.stats has those of the node's own services.

  restart @2 (id :Text, kubernetes :Bool) -> () $allow("os:operator") $audit;
  # Sends SIGTERM to a service or a container of the node. With `kubernetes`, a container gets 10 s to exit; for a pod,
  # all its containers do. The kubelet or machined starts them again. NotFound.

  logs @3 (id :Text, follow :Bool, tailLines :Int32 = -1, from :UInt64, sink :LogSink, contains :Text,
      since :LogSince) -> () $allow("os:reader");
  # Sends the log file of a pod's container, as the CRI writes it: time, stream, tag, text. Otherwise as Logs.read.

  images @4 () -> (images :List(ContainerImage)) $allow("os:reader");
  # Sorted by name.

  pull @5 (image :Text) -> () $allow("os:operator") $audit;
  # Tries once, without retries. NotFound, InvalidArgument (not a reference), PermissionDenied (the registry requires
  # credentials), Unauthenticated (the registry's CA is unknown), Unavailable.
}

struct Container {
  namespace @0 :Text;
  id @1 :Text;             # namespace/pod of a pod, namespace/pod:container of a container in it
  image @2 :Text;
  pid @3 :UInt32;          # 0: it does not run
  status @4 :Text;         # RUNNING …; of Kubernetes SANDBOX_READY, CONTAINER_RUNNING …
  podId @5 :Text;          # namespace/pod; empty: a container of the node itself
  runtimeId @6 :Text;      # containerd's id, in which the name of its control group ends
}
struct ContainerStat {
  namespace @0 :Text; id @1 :Text; memoryUsage @2 :UInt64; cpuUsageNs @3 :UInt64; podId @4 :Text;
}
struct ContainerImage { name @0 :Text; digest @1 :Text; size @2 :UInt64; created @3 :UInt64; }
# size in bytes, compressed; created: when it was pulled, ns since 1970
