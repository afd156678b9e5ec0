@0xc7b1e6a0d94f2358;
# Input and output of `talosctl diagnose`; neither is sent to a node. The checks read Observations
# (talosctl/diagnose/illness-table.h); the command prints Diagnosis in YAML and JSON.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using M = import "machine.capnp";
using MachineResources = import "machine-resources.capnp";
using NetworkResources = import "network-resources.capnp";
using SecretResources = import "secret-resources.capnp";
using StorageResources = import "storage-resources.capnp";
using EtcdResources = import "etcd-resources.capnp";
using KubernetesResources = import "kubernetes-resources.capnp";
using InventoryResources = import "inventory-resources.capnp";
using E = import "etcd.capnp";
using Containers = import "containers.capnp";
using Survey = import "kubernetes.capnp".Survey;

struct Observations {
  now @0 :Int64;                   # of this host's clock, ns since 1970
  clientNotBefore @1 :Int64;       # of the talosconfig's certificate, s since 1970; both 0: not known
  clientNotAfter @2 :Int64;
  endpoints @3 :List(Endpoint);    # that did not answer; empty if any endpoint did
  nodes @4 :List(Node);
  survey @5 :Survey $A.ifGiven;    # of the first control-plane node that answered with one
  surveyNode @6 :Text;             # the node that it is from
  surveyProblem @7 :Text;          # why no node answered with one
  clientCaHash @8 :Text;           # of the talosconfig's CA, in the form of machine.caHash

  struct Endpoint {
    host @0 :Text;
    error @1 :Text;
    maintenance @2 :Bool;
    contexts @3 :List(Text);       # other contexts of the talosconfig with which it answers
  }

  struct Node {
    address @0 :Text;              # as requests name it
    reach @1 :Reach;
    error @2 :Text;                # why it does not answer
    unanswered @3 :List(Unanswered);   # of a node that answers
    hostname @4 :Text;
    clock @5 :Int64;               # ns since 1970, when this host's clock showed clockAt; 0: not known
    clockAt @6 :Int64;
    status @7 :M.Status;
    services @8 :List(M.Service);
    facts @9 :Facts;
    links @10 :List(Link);
    linkSpecs @11 :List(Text);     # names of the links that should be up
    leases @12 :List(Lease);
    addresses @13 :List(NetworkResources.AddressStatusSpec);
    nodeAddresses @14 :List(Text); # addresses that the node calls its own
    routes @15 :List(NetworkResources.RouteStatusSpec);
    network @16 :NetworkResources.NetworkStatusSpec;
    resolvers @17 :List(Text);
    time @18 :MachineResources.TimeStatusSpec;
    join @19 :SecretResources.JoinStatusSpec;
    joins @20 :Bool;               # it has its certificate from trustd: `join` is set
    volumes @21 :List(Volume);
    upgrade @22 :MachineResources.UpgradeStatusSpec;
    mounts @23 :List(M.Mount);
    etcd @24 :EtcdResources.EtcdStatusSpec;
    members @25 :List(E.Etcd.Member);
    quorum @26 :Bool = true;
    kubelet @27 :KubernetesResources.KubeletSpecSpec;
    staticPods @28 :List(Text);    # names of the pods that have a definition
    secretsReady @29 :Bool = true; # the files that the static pods read exist
    manifests @30 :KubernetesResources.ManifestStatusSpec;
    nodeStatus @31 :KubernetesResources.NodeStatusSpec;
    vips @32 :List(Vip);
    containers @33 :List(Containers.Container);
    logs @34 :List(Log);
    controlPlane @35 :Bool;
    metadataBlock @36 :NetworkResources.MetadataBlockStatusSpec;   # no addresses: nothing is dropped
    security @37 :InventoryResources.SecurityStateSpec;
    contexts @38 :List(Text);      # other contexts of the talosconfig with which it answers; if it is `refused`
    pastRead @39 :Bool;            # `pastControlPlane` is known; read only while its etcd waits for a cluster
    pastControlPlane @40 :List(Text);  # hosts of the control plane that the node has kept on STATE since it was in a cluster
    firewall @41 :NetworkResources.FirewallStatusSpec;   # its problem is empty if the kernel has the rules
    firewallSpecs @42 :List(Text); # ids of its FirewallSpecs: one, or none without a firewall in the config
    apiServer @43 :KubernetesResources.LocalApiStatusSpec;   # of a control-plane node

    enum Reach {
      answers @0;
      unverified @1;               # it has no certificate yet: only its services can be listed
      maintenance @2;              # it has no config
      silent @3;                   # no connection
      refused @4;                  # its certificate, or ours, is not trusted
    }
  }
  # A question that a node did not answer. Checks name the answers that they need by the same enum.
  struct Unanswered { question @0 :Question; error @1 :Text; }
  enum Question {
    status @0; services @1; config @2; links @3; addresses @4; routes @5; names @6; time @7; clock @8;
    trust @9; disks @10; etcd @11; members @12; kubernetes @13; containers @14; logs @15; survey @16; kernelLog @17;
    firewall @18;
  }
  struct Link { name @0 :Text; status @1 :NetworkResources.LinkStatusSpec; }
  struct Lease { id @0 :Text; operator @1 :Text; linkName @2 :Text; state @3 :Text; addresses @4 :List(Text); }
  struct Volume { label @0 :Text; status @1 :StorageResources.VolumeStatusSpec; }
  struct Vip { address @0 :Text; status @1 :NetworkResources.VipStatusSpec; }
  struct Log { id @0 :Text; lines @1 :List(Text); }    # the newest lines, oldest first
  struct Facts {
    # The parts of the machine config that checks read. No secrets.
    endpoint @0 :Text;             # https://10.5.0.2:6443
    podSubnets @1 :List(Text);
    serviceSubnets @2 :List(Text);
    cni @3 :Text;                  # flannel, custom or none
    proxyDisabled @4 :Bool;
    authorities @5 :List(Authority);
    mirrored @6 :List(Text);       # registries that have mirrors; "*": all
  }
  struct Authority {
    key @0 :Text;                  # of the config: cluster.ca
    fingerprint @1 :Text;          # of its public key
    notBefore @2 :Int64;           # s since 1970
    notAfter @3 :Int64;
    accepted @4 :List(Text);       # fingerprints of the CAs that are accepted beside it
  }
}

struct Diagnosis {
  causes @0 :List(Finding);        # the first broken link first
  checks @1 :UInt32;               # that were made
  nodes @2 :List(Text);
  notMade @3 :List(NotMade);

  struct Finding {
    check @0 :Text;                # its name: image-kubelet
    layer @1 :Text;                # image
    nodes @2 :List(Text);          # empty: the cluster
    confidence @3 :Text;           # certain, likely or consequence
    summary @4 :Text;
    evidence @5 :List(Evidence);
    command @6 :Text;              # that repairs it
    consequences @7 :List(Finding);
  }
  struct Evidence {
    source @0 :Text;               # the command that shows it
    text @1 :Text;
    time @2 :Text;                 # RFC 3339; empty: now
  }
  struct NotMade { check @0 :Text; node @1 :Text; reason @2 :Text; }
}
