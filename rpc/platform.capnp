@0xb6f0c1d27e5a9483;
# The facts that a platform (a cloud, a hypervisor) states about a machine. A confined process
# (machined/confined/parser) reads them from the platform's documents, and the brain of machined checks them.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using import "inventory-resources.capnp".PlatformMetadataSpec;
using import "config-network.capnp".Network;

struct PlatformFacts {
  metadata @0 :PlatformMetadataSpec;
  network @1 :Network;               # in the shape of machine.network, below which it is applied
  timeServers @2 :List(Text);        # addresses or names
  externalAddresses @3 :List(Text);  # addresses that reach the machine from outside, on no link of it
  problems @4 :List(Text);           # values that were left out, each with its place
}
