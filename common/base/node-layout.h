// The layout of a node: uids, ports, sockets and folders of its programs, and the environment
// variables by which machined passes them to its daemons. Each is defined only here.
#pragma once

#include <kj/string.h>
#include <stdint.h>
#include <stdlib.h>

namespace talos {

constexpr unsigned kApidUid = 50, kTrustdUid = 51, kNetworkdUid = 52, kParserUid = 53,
                   kVipdUid = 54, kKubedUid = 55;
// Of login1 and of dbus-daemon: only they and root can reach the bus.
constexpr unsigned kLogin1Uid = 56;
constexpr unsigned kLogdUid = 57, kBackupdUid = 58, kManifestdUid = 59;
// Of etcd and of etcd-supervisor: they share its data.
constexpr unsigned kEtcdUid = 60;
constexpr uint16_t kApidPort = 50000, kTrustdPort = 50001;
constexpr uint16_t kEtcdPort = 2379, kEtcdPeerPort = 2380;

constexpr kj::StringPtr kConfine = "/usr/libexec/talos/confine"_kj;
constexpr kj::StringPtr kParse = "/usr/libexec/talos/parse"_kj;
constexpr kj::StringPtr kInstaller = "/usr/libexec/talos/installer"_kj;
constexpr kj::StringPtr kLuks = "/usr/libexec/talos/luks"_kj;
constexpr kj::StringPtr kKernelHelper = "/usr/libexec/talos/kernel-helper"_kj;

constexpr kj::StringPtr kRunFolder = "/run/talos"_kj;
// Programs that a developer runs instead of a daemon's own, on nodes in containers. Only root of
// the host writes there, and it is empty after a reboot.
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

// The listening socket that a daemon inherits, where machined listens, and networkd's own folder.
constexpr kj::StringPtr kListenTcpVariable = "TALOS_LISTEN_TCP_FD"_kj;
constexpr kj::StringPtr kListenUnixVariable = "TALOS_LISTEN_FD"_kj;
constexpr kj::StringPtr kStoreVariable = "TALOS_STORE"_kj;
constexpr kj::StringPtr kStateVariable = "TALOS_STATE"_kj;
// The two ends of a pair of sockets that outlives the daemon: what it has sent over it, descriptors
// included, its next start receives.
constexpr kj::StringPtr kKeepingVariable = "TALOS_KEEPING_FD"_kj,
                        kKeptVariable = "TALOS_KEPT_FD"_kj;

// An argument of networkd: a DHCP server of the platform does not answer who asks for option 26.
constexpr kj::StringPtr kDhcpWithoutMtu = "--dhcp-without-mtu"_kj;
// Another one: cards get predictable names.
constexpr kj::StringPtr kPredictableNames = "--predictable-names"_kj;

// For a daemon: the value from its environment, or else the default of a node.
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

}  // namespace talos
