// Renders replies as text, in the layouts of Talos. Pure.
#pragma once

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/client-version.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"

namespace talos::talosctl {

kj::String renderClientVersion(const ClientVersion& version);
kj::String renderServerVersions(kj::ArrayPtr<const Reply<rpc::Version>> replies);
// Renders one line for each problem.
kj::String renderStatus(kj::ArrayPtr<const Reply<rpc::Status>> replies);
kj::String renderMemory(kj::ArrayPtr<const Reply<rpc::Machine::MemoryResults>> replies);
kj::String renderMemoryVerbose(kj::ArrayPtr<const Reply<rpc::Machine::MemoryResults>> replies);
kj::String renderMounts(kj::ArrayPtr<const Reply<rpc::Machine::MountsResults>> replies);
kj::String renderStats(kj::ArrayPtr<const Reply<rpc::Machine::StatsResults>> replies);
kj::String renderContainers(kj::ArrayPtr<const Reply<rpc::Containers::ListResults>> replies);
kj::String renderPodStats(kj::ArrayPtr<const Reply<rpc::Containers::StatsResults>> replies);
kj::String renderImages(kj::ArrayPtr<const Reply<rpc::Containers::ImagesResults>> replies);

enum class SortBy { kResident, kCpu };  // descending order
kj::String renderProcesses(kj::ArrayPtr<const Reply<rpc::Machine::ProcessesResults>> replies,
                           SortBy sort);

kj::String renderInterfaces(kj::ArrayPtr<const Reply<rpc::Network::InterfacesResults>> replies);
kj::String renderRoutes(kj::ArrayPtr<const Reply<rpc::Network::RoutesResults>> replies);

struct SocketView {
  bool all = false, listening = false;                          // neither: only connected sockets
  bool tcp = false, udp = false, udpLite = false, raw = false;  // none set: all protocols
  bool ipv4 = false, ipv6 = false;
  bool extend = false, programs = false, pods = false;  // additional columns
};
// The sockets of one network of a node.
struct SocketsReply {
  kj::StringPtr node, pod;  // `pod` empty: the sockets of the node's own network
  rpc::Machine::NetstatResults::Reader value;
};
kj::String renderSockets(kj::ArrayPtr<const SocketsReply> replies, const SocketView& view);
// `preset`: a choice of --preset.
kj::String renderCgroups(kj::ArrayPtr<const Reply<rpc::Machine::CgroupsResults>> replies,
                         kj::StringPtr preset);

kj::String renderDisks(kj::ArrayPtr<const Reply<rpc::Storage::DisksResults>> replies);
kj::String renderMeta(kj::ArrayPtr<const Reply<rpc::Storage::ReadMetaResults>> replies);
kj::String renderRecoveryKeys(
    kj::ArrayPtr<const Reply<rpc::Storage::NewRecoveryKeyResults>> replies);
kj::String renderTimes(kj::ArrayPtr<const Reply<rpc::Machine::TimeResults>> replies);

// `now`: ns since 1970.
kj::String renderServices(kj::ArrayPtr<const Reply<rpc::Services::ListResults>> replies,
                          uint64_t now);
kj::String renderService(kj::StringPtr node, rpc::Service::Reader service, uint64_t now);

struct FileColumns {
  bool humanize = false;
  uint64_t now = 0;  // ns since 1970
};
kj::String goMode(uint32_t mode);  // formats a mode as "drwxr-xr-x"
kj::String modifiedText(int64_t seconds, const FileColumns& options);
kj::Array<kj::String> fileRow(kj::StringPtr node, rpc::FileInfo::Reader file, bool longForm,
                              const FileColumns& options);

}  // namespace talos::talosctl
