#include "talosctl/cluster/nodes/cluster-plan.h"

#include <arpa/inet.h>
#include <kj/debug.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/node-layout.h"
#include "talosctl/cluster/disks/node-disks.h"
#include "talosctl/cluster/network/cluster-addresses.h"

namespace talos::cluster {
namespace {

[[noreturn]] void refuse(kj::StringPtr flag, kj::StringPtr what) {
  fail(ErrorKind::kInvalidArgument, kj::str(flag, ": ", what));
}

// FNV-1a: spreads cluster names over loopback networks and MAC addresses; its strength does not
// matter.
uint32_t hash(kj::StringPtr text) {
  uint32_t h = 2166136261u;
  for (unsigned char c : text) h = (h ^ c) * 16777619u;
  return h;
}

// Chooses from 127.16.0.0 to 127.250.255.0, away from 127.0.0.1 and from the addresses of
// resolvers.
void chooseLoopback(kj::StringPtr name, unsigned nodes,
                    kj::Function<bool(unsigned, unsigned, unsigned)>& free, unsigned& a,
                    unsigned& b) {
  auto start = hash(name);
  for (unsigned attempt = 0; attempt < 64; ++attempt) {
    auto h = start + attempt * 7919u;
    a = 16 + (h >> 8) % 235;
    b = h % 256;
    if (free(a, b, nodes)) return;
  }
  fail(ErrorKind::kUnavailable,
       kj::str("no free loopback addresses 127.x.y.2… for port ", kApidPort,
               ": destroy other clusters, or find out what listens there with `ss -ltnp`"));
}

// Checks only the form; QEMU knows the calendar.
bool isTime(kj::StringPtr text) {
  constexpr kj::StringPtr kForm = "0000-00-00T00:00:00"_kj;
  if (text.size() != kForm.size()) return false;
  for (auto i : kj::indices(kForm)) {
    bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return false;
  }
  return true;
}

// Returns the host with this number in the network: 1 is the gateway.
kj::String host(const Prefix& network, uint32_t number) {
  auto bytes = kj::heapArray(network.address.bytes());
  auto last = bytes.slice(bytes.size() - sizeof(uint32_t), bytes.size());
  uint32_t raw;
  memcpy(&raw, last.begin(), sizeof raw);
  raw = htonl(ntohl(raw) + number);
  memcpy(last.begin(), &raw, sizeof raw);
  return KJ_ASSERT_NONNULL(Ip::fromBytes(bytes)).toString();
}

// Returns a locally administered address, as QEMU's own are; unlike those, it differs between
// clusters.
kj::String mac(uint32_t seed, unsigned number) {
  char text[18];
  snprintf(text, sizeof text, "52:54:%02x:%02x:%02x:%02x", (seed >> 16) & 255, (seed >> 8) & 255,
           seed & 255, number & 255);
  return kj::str(text);
}

// Splits at white space, as the kernel does.
kj::Vector<kj::String> splitArguments(kj::StringPtr text) {
  kj::Vector<kj::String> result;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    bool blank = i == text.size() || text[i] == ' ' || text[i] == '\t' || text[i] == '\n';
    if (!blank) continue;
    if (i > begin) result.add(kj::heapString(text.slice(begin, i)));
    begin = i + 1;
  }
  return result;
}

}  // namespace

bool isValidName(kj::StringPtr name) {
  bool good = name.size() > 0 && name.size() <= 40;
  for (char c : name) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  }
  return good && name[0] != '-' && name[name.size() - 1] != '-';
}

void checkName(kj::StringPtr name) {
  if (!isValidName(name)) {
    refuse("--name", kj::str("\"", name,
                             "\" is not a valid cluster name; use 1 to 40 of a-z, 0-9 and '-', "
                             "with no '-' first or last"));
  }
}

Prefix parseCidr(kj::StringPtr text) {
  KJ_IF_MAYBE (cidr, Prefix::parse(text)) {
    if (cidr->address.family() == AF_INET) {
      if (cidr->length < 8 || cidr->length > 29) {
        refuse("--cidr", kj::str("\"", text, "\": the prefix must be /8 to /29"));
      }
      if (*cidr != cidr->masked()) {
        refuse("--cidr", kj::str("\"", text, "\" has host bits set; did you mean ",
                                 cidr->masked().toString(), "?"));
      }
      return *cidr;
    }
  }
  refuse("--cidr",
         kj::str("\"", text, "\" is not a valid IPv4 network; use for example 10.5.0.0/24"));
}

namespace {

kj::Maybe<const HostAddress&> overlapping(const Prefix& cidr,
                                          kj::ArrayPtr<const HostAddress> host) {
  for (auto& each : host) {
    if (each.prefix.address.family() != AF_INET || each.link == "lo") continue;
    auto length = kj::min(cidr.length, each.prefix.length);
    if (Prefix{cidr.address, length}.masked() == Prefix{each.prefix.address, length}.masked()) {
      return each;
    }
  }
  return nullptr;
}

// Returns "; use another, such as 10.6.0.0/24", with a network that overlaps none of the host's.
kj::String another(kj::ArrayPtr<const HostAddress> host) {
  for (kj::StringPtr range : {"10."_kj, "192.168."_kj}) {
    for (unsigned i = 6; i < 256; ++i) {
      auto text = kj::str(range, i, range.size() == 3 ? ".0.0/24" : ".0/24");
      if (overlapping(parseCidr(text), host) == nullptr) {
        return kj::str("; use another, such as ", text);
      }
    }
  }
  return kj::str("; use another");
}

}  // namespace

kj::Maybe<kj::String> cidrConflict(const Prefix& cidr, kj::ArrayPtr<const HostAddress> host) {
  KJ_IF_MAYBE (each, overlapping(cidr, host)) {
    return kj::str("--cidr: ", cidr, " is in use: this host has ", each->prefix, " on ", each->link,
                   another(host));
  }
  return nullptr;
}

namespace {

// Throws InvalidArgument naming the flag.
void checkRequest(const Request& request, const Prefix& cidr) {
  checkName(request.name);
  auto count = request.masters + request.workers;
  if (request.masters < 1) refuse("--masters", "must be at least 1");
  auto room = (1u << (32 - cidr.length)) - 3;  // network, gateway, broadcast
  if (!request.ipv4 && !request.ipv6) {
    refuse("--ipv4", "the nodes need addresses; use --ipv6 as well, for IPv6 alone");
  }
  bool machines = !request.containers || request.virtualMachines > 0;
  if (!request.ipv4 && machines) {
    refuse("--ipv4",
           "virtual machines fetch their config with the address of the kernel argument ip=, which "
           "is one of IPv4; use --provisioner container");
  }
  if (count > room || count > 200) {
    refuse("--cidr",
           kj::str(request.cidr, " has room for ", kj::min(room, 200u), " nodes, not ", count));
  }
  if (request.virtualMachines > count) {
    refuse("--virtual-machines", kj::str("must be at most the number of nodes, ", count));
  }
  if (request.memory < 256) refuse("--memory", "must be at least 256 (MiB)");
  if (request.disk < 16) refuse("--disk", "must be at least 16 (MiB)");
  if (request.withBootLoader && request.containers && request.virtualMachines == 0) {
    refuse("--with-bootloader", "nodes in containers have no disk; use --provisioner qemu");
  }
  if (request.mtu < 576 || request.mtu > 65535) refuse("--mtu", "must be 576 to 65535");
  KJ_IF_MAYBE (cpus, request.cpus) {
    // The kernel's smallest quota is a hundredth of a CPU (cgroup v2, cpu.max).
    if (!(*cpus >= 0.01 && *cpus <= 64)) refuse("--cpus", "must be 0.01 to 64");
  }
  if (request.clock.size() > 0 && !isTime(request.clock)) {
    refuse("--clock", kj::str("\"", request.clock,
                              "\" is not a valid time; use for example 2020-12-31T23:59:00"));
  }
}

kj::Vector<Prefix> planNetworks(const Request& request, const Prefix& cidr,
                                rpc::LocalCluster::Builder out) {
  kj::Vector<Prefix> networks;
  if (request.ipv4) networks.add(cidr);
  if (request.ipv6) networks.add(ipv6Beside(cidr));
  out.setCidr(networks[0].toString());
  out.setGateway(host(networks[0], 1));
  if (networks.size() == 2) {
    out.setCidr6(networks[1].toString());
    out.setGateway6(host(networks[1], 1));
  }
  return networks;
}

}  // namespace

void plan(const Request& request, kj::Function<bool(unsigned, unsigned, unsigned)> loopbackFree,
          rpc::LocalCluster::Builder out) {
  auto cidr = parseCidr(request.cidr);
  checkRequest(request, cidr);
  auto count = request.masters + request.workers;
  unsigned a = 0, b = 0;
  chooseLoopback(request.name, count, loopbackFree, a, b);

  out.setProvisioner(request.containers ? "container" : "qemu");
  out.setImage(request.image);
  out.setName(request.name);
  out.setNetworkName(request.name);
  auto networks = planNetworks(request, cidr, out);
  out.setMtu(request.mtu);
  out.setAccelerator(request.accelerator);
  out.setKernel(request.kernel);
  out.setInitramfs(request.initramfs);
  out.setQemuRoot(request.qemuRoot);
  out.setWithoutConfig(request.withoutConfig);
  out.setWithoutUplink(request.withoutUplink);
  out.setWithMetrics(request.withMetrics);
  out.setEncryptState(request.encryptState);
  out.setIsoPath(request.isoPath);
  out.setIsoInDrive(request.isoInDrive);
  out.setClock(request.clock);
  out.setWithBootLoader(request.withBootLoader);
  out.setWithUefi(request.withUefi);
  out.setDiskServer(request.diskServer);
  auto extra = splitArguments(request.extraKernelArguments);
  fillTexts(out.initExtraKernelArguments(extra.size()), extra);
  auto nodes = out.initNodes(count);
  auto macSeed = hash(request.name);
  auto firstMachine = request.containers ? count - request.virtualMachines : 0;
  auto cpus = request.cpus.orDefault(2);
  for (unsigned i = 0; i < count; ++i) {
    auto node = nodes[i];
    bool master = i < request.masters;
    node.setName(kj::str(request.name, master ? "-master-" : "-worker-",
                         master ? i + 1 : i + 1 - request.masters));
    node.setType(master ? (i == 0 && request.withInitNode ? "init" : "controlplane") : "join");
    node.setAddress(host(networks[0], 2 + i));
    if (networks.size() == 2) node.setAddress6(host(networks[1], 2 + i));
    node.setEndpoint(kj::str("127.", a, ".", b, ".", 2 + i));
    node.setMac(mac(macSeed, 2 + i));
    node.setMemory(request.memory << 20);
    if (i < firstMachine) {
      node.setProvisioner("container");
      node.setMilliCpus(static_cast<unsigned>(ceil(cpus * 1000)));
      continue;
    }
    bool emulated = request.cpus == nullptr && request.accelerator != "kvm";
    node.setProvisioner("qemu");
    node.setCpus(emulated ? 1 : static_cast<unsigned>(ceil(cpus)));
    node.setDisk(request.disk << 20);
    auto userDisks = node.initUserDisks(request.userDisks.size());
    for (auto d : kj::indices(request.userDisks)) userDisks.set(d, request.userDisks[d]);
    // An installed node has STATE on its installation disk.
    node.setStateDisk(request.withBootLoader ? 0 : kStateDiskBytes);
  }
}

bool isContainer(rpc::LocalNode::Reader node) {
  return node.getProvisioner() == "container";
}

bool hasContainers(rpc::LocalCluster::Reader cluster) {
  for (auto node : cluster.getNodes()) {
    if (isContainer(node)) return true;
  }
  return false;
}

bool hasVirtualMachines(rpc::LocalCluster::Reader cluster) {
  for (auto node : cluster.getNodes()) {
    if (!isContainer(node)) return true;
  }
  return false;
}

kj::String cgroupName(kj::StringPtr cluster, kj::StringPtr stateDirectory) {
  return kj::str(cluster, "-", kj::hex(hash(stateDirectory)));
}

}  // namespace talos::cluster
