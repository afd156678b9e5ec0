@0xb6f0c1d27e5a9483;
# The facts that a platform (a cloud, a hypervisor) states about a machine, read from the platform's documents by a confined
# process (machined/confined/parser) and checked by the brain of machined.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using import "inventory-resources.capnp".PlatformMetadataSpec;
using import "config-network.capnp".Network;

struct PlatformFacts {
  metadata @0 :PlatformMetadataSpec;
  network @1 :Network;               # in the shape of machine.network, below which it is applied
  timeServers @2 :List(Text);        # addresses or names
  externalAddresses @3 :List(Text);  # reach the machine from outside, on no link of it
  problems @4 :List(Text);           # values that were left out, each with its place
}
