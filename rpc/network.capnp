@0xf22bf90619d8007d;
# What networkd shows of the kernel's network. Spec machine-api.md §6.1.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;

interface Network {
  interfaces @0 () -> (interfaces :List(Interface)) $allow("os:reader") $maintenance;
  routes @1 () -> (routes :List(Route)) $allow("os:reader");
}
struct Interface {
  index @0 :UInt32; mtu @1 :UInt32; name @2 :Text; hardwareAddress @3 :Text;
  flags @4 :List(Text);            # UP, BROADCAST, LOOPBACK, POINTTOPOINT, MULTICAST
  addresses @5 :List(Text);        # CIDR
}
struct Route {
  interface @0 :Text; destination @1 :Text; gateway @2 :Text;   # CIDR; 0.0.0.0/0 or ::/0 when absent
  metric @3 :UInt32; scope @4 :Text; source @5 :Text; family @6 :Text; protocol @7 :Text; flags @8 :UInt32;
}
