// Layout of a node: uids, ports, sockets and folders of its programs, and the environment variables
// by which machined passes them to its daemons. Each is defined only here.
#pragma once

#include <kj/string.h>
#include <stdint.h>
#include <stdlib.h>

namespace talos {

constexpr unsigned kApidUid = 50, kTrustdUid = 51, kNetworkdUid = 52, kParserUid = 53,
                   kVipdUid = 54, kKubedUid = 55;
// Uid of login1 and of dbus-daemon: only they and root can reach the bus.
constexpr unsigned kLogin1Uid = 56;
constexpr unsigned kLogdUid = 57, kBackupdUid = 58, kManifestdUid = 59;
constexpr unsigned kProbedUid = 61, kRegistrydUid = 62;
// Uid of etcd and of etcd-supervisor: they share etcd's data.
constexpr unsigned kEtcdUid = 60;
constexpr uint16_t kApidPort = 50000, kTrustdPort = 50001;
constexpr uint16_t kRegistrydPort = 3172;  // on 127.0.0.1
constexpr uint16_t kEtcdPort = 2379, kEtcdPeerPort = 2380;
// On 127.0.0.1, only while the members of etcd have other addresses than etcd knows.
constexpr uint16_t kEtcdProxyPort = 2382;

constexpr kj::StringPtr kConfine = "/usr/libexec/talos/confine"_kj;
constexpr kj::StringPtr kParse = "/usr/libexec/talos/parse"_kj;
constexpr kj::StringPtr kInstaller = "/usr/libexec/talos/installer"_kj;
constexpr kj::StringPtr kLuks = "/usr/libexec/talos/luks"_kj;
constexpr kj::StringPtr kKernelHelper = "/usr/libexec/talos/kernel-helper"_kj;

constexpr kj::StringPtr kRunFolder = "/run/talos"_kj;
// Folder of programs that a developer runs in place of a daemon's program, on nodes in containers.
// Only root of the host can write there, and the folder is empty after a reboot.
constexpr kj::StringPtr kReplacedFolder = "/run/talos-replaced"_kj;
constexpr kj::StringPtr kMachinedSocket = "/run/talos/machined.sock"_kj;
constexpr kj::StringPtr kNetworkdSocket = "/run/talos/networkd.sock"_kj;
constexpr kj::StringPtr kEtcdSupervisorSocket = "/run/talos/etcd-supervisor.sock"_kj;
constexpr kj::StringPtr kEtcdSupervisorState =
    "/var/lib/etcd-supervisor"_kj;                        // its unfinished operations
constexpr kj::StringPtr kLogdState = "/var/lib/logd"_kj;  // lines on their way to receivers
constexpr kj::StringPtr kBackupdSocket = "/run/talos/backupd.sock"_kj;
constexpr kj::StringPtr kKubedSocket = "/run/talos/kubed.sock"_kj;
constexpr kj::StringPtr kBusFolder = "/run/dbus"_kj;
constexpr kj::StringPtr kBusSocket = "/run/dbus/system_bus_socket"_kj;
constexpr kj::StringPtr kNetworkdState = "/run/talos/networkd"_kj;  // resolv.conf and leases
// Addresses of the node's resolver (machine.features.hostDNS), which networkd runs: that of the
// node itself, and those at which pods reach it.
constexpr kj::StringPtr kHostDnsAddress = "127.0.0.53"_kj,
                        kHostDnsPodAddress4 = "169.254.116.108"_kj,
                        kHostDnsPodAddress6 = "fd54:616c:6f73::204f:5320:444e:531"_kj;
// File in networkd's folder with the name servers of pods, for the kubelet.
constexpr kj::StringPtr kPodResolverFile = "pod-resolv.conf"_kj;
// The public CAs: the image's bundle, with what the config appends to it.
constexpr kj::StringPtr kAuthoritiesBundle = "/etc/ssl/certs/ca-certificates.crt"_kj;
// Path of machine.files whose content becomes a part of containerd's configuration.
constexpr kj::StringPtr kContainerdPart = "/etc/cri/conf.d/20-customization.part"_kj;

// Variables with the listening socket that a daemon inherits, the socket of machined, and
// networkd's folder.
constexpr kj::StringPtr kListenTcpVariable = "TALOS_LISTEN_TCP_FD"_kj;
constexpr kj::StringPtr kListenUnixVariable = "TALOS_LISTEN_FD"_kj;
constexpr kj::StringPtr kStoreVariable = "TALOS_STORE"_kj;
constexpr kj::StringPtr kStateVariable = "TALOS_STATE"_kj;
// Variables with the two ends of a pair of sockets that outlives the daemon: its next start
// receives everything that the daemon has sent over it, including descriptors.
constexpr kj::StringPtr kKeepingVariable = "TALOS_KEEPING_FD"_kj,
                        kKeptVariable = "TALOS_KEPT_FD"_kj;

// Argument of networkd for platforms whose DHCP server does not answer a client that requests
// option 26.
constexpr kj::StringPtr kDhcpWithoutMtu = "--dhcp-without-mtu"_kj;
// Argument of networkd: cards get predictable names.
constexpr kj::StringPtr kPredictableNames = "--predictable-names"_kj;

// Returns the value from the daemon's environment, or else the default of a node.
inline kj::StringPtr fromEnvironment(kj::StringPtr variable, kj::StringPtr fallback) {
  auto value = getenv(variable.cStr());
  return value == nullptr ? fallback : kj::StringPtr(value);
}
inline kj::StringPtr machinedSocket() {
  return fromEnvironment(kStoreVariable, kMachinedSocket);
}
inline kj::StringPtr networkdState() {
  return fromEnvironment(kStateVariable, kNetworkdState);
}

// File that tells a node in a container how much memory it may use, as lines of /proc/meminfo: the
// kernel's /proc/meminfo is the host's. The program that starts the container writes the file;
// without a limit the file does not exist.
constexpr kj::StringPtr kMemoryOfContainer = "/run/.meminfo"_kj;

}  // namespace talos
