@0xf22bf90619d8007d;
# The kernel's network, as networkd reads it: links, routes and captures of packets.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;
using import "annotations.capnp".audit;
using import "stream.capnp".ByteSink;

const mostSnapLength :UInt32 = 262144;
# Largest size of a captured packet, in bytes, as in tcpdump.

interface Network {
  interfaces @0 () -> (interfaces :List(Interface)) $allow("os:reader") $maintenance;
  # Returns the links of the node with their addresses, read from the kernel at each call.

  routes @1 () -> (routes :List(Route)) $allow("os:reader");
  # Returns the routes of all tables, those of the main table first, read from the kernel at each
  # call.

  capture @2 (link :Text, promiscuous :Bool, snapLength :UInt32, durationMs :UInt64, filter :List(FilterStep),
      sink :ByteSink) -> (packets :UInt64, dropped :UInt64) $audit;
  # Captures the packets of a link, in both directions, and sends them as a pcap file
  # (draft-ietf-opsawg-pcap) with times in ns, until `durationMs` is over (0: until the caller drops
  # the call). Each packet is cut off after `snapLength` bytes (0: 4096; at most mostSnapLength).
  # `dropped`: packets that came faster than the caller took them.
  # Errors: NotFound for an unknown link. InvalidArgument for a longer `snapLength`, and for a
  # filter that is too long or that the kernel refuses. Unimplemented for a link whose hardware has
  # no pcap type. ResourceExhausted beyond kMostCaptures at once. Unavailable when the link
  # disappears or goes down.
  # Cancel: ends the capture, and its promiscuous mode.
}
struct FilterStep { code @0 :UInt16; jt @1 :UInt8; jf @2 :UInt8; k @3 :UInt32; }
# One instruction of classic BPF, as Linux' sock_filter and `tcpdump -dd`.
struct Interface {
  index @0 :UInt32; mtu @1 :UInt32; name @2 :Text; hardwareAddress @3 :Text;
  flags @4 :List(Text);            # UP, BROADCAST, LOOPBACK, POINTTOPOINT, MULTICAST
  addresses @5 :List(Text);        # CIDR
}
struct Route {
  interface @0 :Text; destination @1 :Text; gateway @2 :Text;   # CIDR; 0.0.0.0/0 or ::/0 when absent
  metric @3 :UInt32; scope @4 :Text; source @5 :Text; family @6 :Text; protocol @7 :Text; flags @8 :UInt32;
  table @9 :Text;                  # main, local, default, or its number
  type @10 :Text;                  # unicast, local, broadcast, blackhole …
}
