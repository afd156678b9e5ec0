// Plans a local cluster before anything is created: names, addresses, sizes. Pure: the same request
// gives the same plan; the test for free loopback networks is an argument.
#pragma once

#include <kj/function.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"
#include "rpc/cluster.capnp.h"

namespace talos::cluster {

struct Request {
  kj::String name;
  unsigned masters = 1;
  unsigned workers = 0;
  kj::Maybe<double> cpus;          // nullptr: 2, or 1 in software emulation
  uint64_t memory = 2048;          // MiB (Talos says MB)
  uint64_t disk = 6144;            // MiB
  kj::String cidr;                 // IPv4, /8 to /29
  bool ipv4 = true, ipv6 = false;  // families of the nodes' addresses, at least one
  unsigned mtu = 1500;
  bool containers = false;       // all nodes but the last ones are containers:
  unsigned virtualMachines = 0;  // the last `virtualMachines` nodes
  kj::String image;              // squashfs of the containers
  kj::String accelerator;        // kvm or tcg, for virtual machines
  kj::String kernel, initramfs, qemuRoot;
  bool withInitNode = false;  // the first master is of type init
  bool withoutConfig = false;
  bool encryptState = false;
  kj::Vector<uint64_t> userDisks;  // sizes in bytes, for each virtual machine
  bool withoutUplink = false;
  bool withMetrics = false;
  kj::String isoPath;  // absolute, or empty
  kj::String clock;    // YYYY-MM-DDTHH:MM:SS in UTC; empty: the present time
  // True for an ISO 9660 volume, which goes into a CD-ROM drive. Any other file, whose sectors are
  // too small for a drive, becomes a read-only disk.
  bool isoInDrive = false;
  kj::String extraKernelArguments;  // "a=b c=d"
  bool withBootLoader = false, withUefi = false;
  kj::String diskServer;  // absolute path of the disk server's socket, or empty
};

// Fills in `out`. Throws InvalidArgument naming the flag and valid values. `loopbackFree(a, b,
// count)` returns true if 127.a.b.2 … 127.a.b.(1+count) port 50000 can be bound.
void plan(const Request& request,
          kj::Function<bool(unsigned a, unsigned b, unsigned count)> loopbackFree,
          rpc::LocalCluster::Builder out);

// Port of machine.metrics in the configs of a cluster with metrics, and of the endpoints that lead
// to it.
constexpr uint16_t kMetricsPort = 50002;

bool isValidName(kj::StringPtr name);
// Throws InvalidArgument unless the name is valid for a cluster and its folder.
void checkName(kj::StringPtr name);

// Parses an IPv4 network with room for a gateway and nodes; throws InvalidArgument naming --cidr.
Prefix parseCidr(kj::StringPtr text);

// An address of this host.
struct HostAddress {
  kj::String link;
  Prefix prefix;
};
// Returns the error if a cluster must not have this network because it overlaps a network of the
// host, which the nodes could not reach then; suggests another network, if there is one. Loopback
// and other clusters do not count: clusters have their own namespaces.
kj::Maybe<kj::String> cidrConflict(const Prefix& cidr, kj::ArrayPtr<const HostAddress> host);

bool isContainer(rpc::LocalNode::Reader node);
bool hasContainers(rpc::LocalCluster::Reader cluster);
bool hasVirtualMachines(rpc::LocalCluster::Reader cluster);

// Returns the name of the cluster's cgroups: other clusters may have the same name in another
// folder.
kj::String cgroupName(kj::StringPtr cluster, kj::StringPtr stateDirectory);

}  // namespace talos::cluster
