// The facts that the pages of a machine's own screen show.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

struct ScreenLink {
  kj::String name, state;            // state: up, no carrier, down
  kj::String hardware;               // its address, driver and place
  kj::Vector<kj::String> addresses;  // with prefix lengths
};

struct ScreenFacts {
  kj::String hostname, version;
  kj::String stage;     // running, booting, maintenance …
  kj::String progress;  // "boot: startServices", of the running sequence; of an upgrade
  kj::Vector<kj::String> addresses;  // reachable from outside
  kj::Vector<kj::String> problems;   // the first one is shown with its remedy
  kj::String role;                   // control plane or worker; empty: no config yet
  kj::String etcd, kubernetes;       // empty: not on this node
  kj::String shared;                 // shared addresses, and their holders
  unsigned servicesUp = 0, services = 0;
  kj::String revertsAt;          // RFC 3339, of a config on trial
  kj::Vector<ScreenLink> links;  // of hardware, and those that the config makes
  kj::Vector<kj::String> gateways, nameServers, timeServers;
  kj::Vector<kj::String> networkProblems;  // what networkd could not do
  kj::String fingerprint;  // of the certificate by which a client recognises the node
};

}  // namespace talos::machined
