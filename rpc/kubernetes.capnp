@0xe1c05b7a96d2f348;
# Kubernetes as a control-plane node sees it. kubed calls the API server with the node's own admin kubeconfig, so it
# answers even while the cluster's endpoint, its load balancer or the caller's kubeconfig does not work.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "annotations.capnp".secret;

interface Kubernetes {
  survey @0 () -> (survey :Survey) $allow("os:reader");
  # Reads the state of the cluster after the call, within 30 s; calls that arrive meanwhile share the next reading.
  # Parts that could not be read are empty and named in `problems`. Unavailable, with the reason, when the API server
  # does not answer at all; FailedPrecondition on a worker.

  tryClient @1 (address :Text, kubelet :Bool, authority :Data, certificate :Data, key :Data $secret)
      -> (server :Data, refused :Text) $allow("os:admin") $audit;
  # Calls the API server, or the kubelet, at the address of a node, as the client with this certificate (PEM). `server`:
  # the certificates that the server showed, PEM, its own first. An API server is verified by `authority`, a kubelet
  # also by the certificates that it shows itself. `refused`: why the server does not serve the client, or the client
  # does not trust the server; empty: neither. Unavailable when no server answers; PermissionDenied for an address of no
  # node of the cluster; FailedPrecondition on a worker.

  forgetClientCa @2 (authority :Data, aggregator :Bool) -> (found :Bool) $allow("os:admin") $audit;
  # Removes a CA (PEM) from the CAs that Kubernetes publishes for the clients of its parts and of aggregated API servers
  # (kube-system/extension-apiserver-authentication): API servers add their CAs, and remove none before it expires.
  # `aggregator`: removes it from the CAs of the aggregation layer instead. `found`: the CA was published.
  # FailedPrecondition on a worker, Unavailable when the API server does not answer.

  rewriteSecrets @3 (names :List(Text)) -> () $allow("os:admin") $audit;
  # Makes the API server of this node write these Secrets (namespace/name, 100 at most) again unchanged, which encrypts
  # them with its first key. Secrets that no longer exist are skipped. InvalidArgument for a name of another form or too
  # many names; FailedPrecondition on a worker, Unavailable when the API server does not answer.

  aggregation @4 () -> (authorities :Data, unavailable :List(Text)) $allow("os:reader");
  # `authorities`: the CAs of the aggregation layer that Kubernetes publishes for aggregated API servers, PEM.
  # `unavailable`: aggregated APIs that are not available, sorted: "v1beta1.metrics.k8s.io: MissingEndpoints".
  # Read and shared as survey(). FailedPrecondition on a worker, Unavailable when the API server does not answer.

  tokensOfOtherKeys @5 (key :Text) -> (secrets :List(Text), otherSecrets :UInt32, pods :List(Text), otherPods :UInt32,
      until :Int64) $allow("os:admin");
  # Finds service account tokens that may have been signed by another key than this one (its id, as tokens name it).
  # `secrets`: Secrets with such a token, namespace/name. `pods`: pods that are older than an API server that runs now,
  # and whose tokens their kubelets have not had to renew since; all kubelets will have renewed them by `until` (s since
  # 1970). Both lists have the first 20, sorted; `otherSecrets` and `otherPods` count the rest. FailedPrecondition on a
  # worker, Unavailable when the API server does not answer.
}

struct Survey {
  # The state of a cluster, as far as its health and the diagnosis need it; common/kube/survey.h makes it from
  # Kubernetes' objects. It has no contents of secrets, config maps or environments.
  server @0 :Text;                 # the API server that answered: "10.5.0.2:6443"
  version @1 :Text;                # its release: v1.34.4
  nodes @2 :List(Node);            # sorted by name
  workloads @3 :List(Workload);    # of kube-system, sorted by kind and name
  pods @4 :List(Pod);              # all of kube-system; of other namespaces those neither ready nor completed
  endpoints @5 :List(Endpoints);   # default/kubernetes and kube-system/kube-dns
  warnings @6 :List(Event);        # the 50 newest of type Warning, newest first
  problems @7 :List(Text);         # what could not be read, and why
  unreadPods @8 :UInt32;           # number of pods outside of kube-system that are not ready, beyond the 500 in `pods`
  budgets @9 :List(Budget);        # PodDisruptionBudgets, sorted by namespace and name

  struct Node {
    name @0 :Text;
    addresses @1 :List(Text);      # InternalIPs
    ready @2 :Bool;
    reason @3 :Text;               # of the condition Ready: KubeletNotReady
    message @4 :Text;
    controlPlane @5 :Bool;         # by its label
    unschedulable @6 :Bool;
    taints @7 :List(Text);         # key=value:Effect
    pressures @8 :List(Text);      # other conditions that are true, "DiskPressure: <message>"
    podCidrs @9 :List(Text);
    kubeletVersion @10 :Text;
    since @11 :Int64;              # s since 1970: when Ready became what it is
  }
  struct Workload {
    kind @0 :Text;                 # DaemonSet, Deployment, ReplicaSet
    name @1 :Text;
    app @2 :Text;                  # label k8s-app
    desired @3 :UInt32;            # pods
    ready @4 :UInt32;
    message @5 :Text;              # why pods cannot be created, from its conditions
  }
  struct Pod {
    namespace @0 :Text;
    name @1 :Text;
    node @2 :Text;                 # empty: not scheduled
    app @3 :Text;                  # label k8s-app
    component @4 :Text;            # label component: kube-apiserver
    phase @5 :Text;                # Running
    ready @6 :Bool;
    mirror @7 :Bool;               # of a static pod
    checkpoint @8 :Bool;           # of bootkube's checkpointer
    owner @9 :Text;                # kind/name of the object that made it; empty: none
    reason @10 :Text;              # why it is not ready: ImagePullBackOff, Unschedulable
    message @11 :Text;
    container @12 :Text;           # the container that `reason` is about, if it is about one
    restarts @13 :UInt32;          # of all its containers
    addresses @14 :List(Text);
    deleted @15 :Bool;             # it is ending
    secretsVersion @16 :Text;      # annotation talos.dev/secrets-version of the control plane's static pods
  }
  struct Endpoints {
    service @0 :Text;              # namespace/name
    clusterIp @1 :Text;
    ready @2 :List(Text);          # address:port
    notReady @3 :List(Text);
  }
  struct Budget {
    namespace @0 :Text;
    name @1 :Text;
    allowed @2 :UInt32;            # number of pods that may be evicted now
    pods @3 :List(BudgetPod);      # pods that it covers and a drain evicts, the first 200
    more @4 :UInt32;               # number of such pods beyond `pods`
  }
  struct BudgetPod {
    name @0 :Text;
    node @1 :Text;                 # its name in Kubernetes
  }
  struct Event {
    time @0 :Int64;                # s since 1970
    object @1 :Text;               # Pod kube-system/coredns-1
    reason @2 :Text;               # FailedScheduling
    message @3 :Text;
    count @4 :UInt32;
  }
}
