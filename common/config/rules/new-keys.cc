#include "common/config/rules/new-keys.h"

namespace talos::config {
namespace {

using codec::Entry;
using codec::YamlNode;
using codec::YamlStream;

struct NewKey {
  kj::StringPtr path;  // with "[]" for each item of a list
  // Its readers leave out the items with mistakes, so that the others act.
  bool inParts = false;
};
constexpr NewKey kNewKeys[] = {
    {"cluster.apiServer.admissionControl"_kj},
    {"cluster.apiServer.auditPolicy"_kj},
    {"cluster.apiServer.authorizationConfig"_kj},
    {"cluster.apiServer.env"_kj},
    {"cluster.apiServer.resources"_kj},
    {"cluster.controllerManager.env"_kj},
    {"cluster.controllerManager.resources"_kj},
    {"cluster.coreDNS.disabled"_kj},
    {"cluster.network.cni.flannel"_kj},
    {"cluster.scheduler.config"_kj},
    {"cluster.scheduler.env"_kj},
    {"cluster.scheduler.resources"_kj},
    {"machine.baseRuntimeSpecOverrides"_kj, true},
    {"machine.controlPlane"_kj},
    {"machine.features.stableHostname"_kj},
    {"machine.kubelet.credentialProviderConfig"_kj},
    {"machine.kubelet.defaultRuntimeSeccompProfileEnabled"_kj},
    {"machine.kubelet.disableManifestsDirectory"_kj},
    {"machine.kubelet.extraMounts[].gidMappings"_kj, true},
    {"machine.kubelet.extraMounts[].uidMappings"_kj, true},
    {"machine.kubelet.skipNodeRegistration"_kj},
    {"machine.network.interfaces[].bridgePort"_kj, true},
    {"machine.network.interfaces[].dhcpOptions.duidv6"_kj},
    {"machine.network.interfaces[].vlans[].dhcpOptions.duidv6"_kj},
    {"machine.pods"_kj, true},
    {"machine.seccompProfiles"_kj, true},
    {"machine.time.bootTimeout"_kj},
};

// Returns the end of the part of the path that the pattern describes: of "a.b[3]" in "a.b[3].c" for
// "a.b[]"; nullptr if the path is neither at the pattern nor below it.
kj::Maybe<const char*> endOf(kj::StringPtr pattern, kj::StringPtr path) {
  size_t at = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (at >= path.size() || path[at] != pattern[i]) return nullptr;
    ++at;
    if (pattern[i] != '[') continue;
    while (at < path.size() && path[at] != ']') ++at;
  }
  bool ends = at == path.size() || path[at] == '.' || path[at] == '[';
  if (!ends) return nullptr;
  return path.begin() + at;
}

bool removeEntry(YamlNode& mapping, kj::ArrayPtr<const char> key) {
  kj::Vector<Entry> kept;
  for (auto& entry : mapping.entries) {
    if (entry.key.asArray() != key) kept.add(kj::mv(entry));
  }
  bool removed = kept.size() < mapping.entries.size();
  mapping.entries = kj::mv(kept);
  return removed;
}

// Removes the key at a path as "a.b[3].c", of which `node` is the root. Returns false if there is
// none.
bool removeAt(YamlStream& stream, const YamlNode& node, kj::ArrayPtr<const char> path) {
  if (path.size() > 0 && path[0] == '[') {
    size_t end = 1, index = 0;
    for (; end < path.size() && path[end] != ']'; ++end) {
      if (path[end] < '0' || path[end] > '9') return false;
      index = index * 10 + size_t(path[end] - '0');
    }
    if (end + 1 >= path.size() || index >= node.items.size()) return false;
    return removeAt(stream, *node.items[index], path.slice(end + 1, path.size()));
  }
  size_t begin = path.size() > 0 && path[0] == '.' ? 1 : 0, end = begin;
  while (end < path.size() && path[end] != '.' && path[end] != '[') ++end;
  auto key = path.slice(begin, end);
  if (end == path.size()) return removeEntry(stream.edit(node), key);
  for (auto& entry : node.entries) {
    if (entry.key.asArray() != key || entry.value == nullptr) continue;
    return removeAt(stream, *entry.value, path.slice(end, path.size()));
  }
  return false;
}

}  // namespace

bool isInNewKey(kj::StringPtr path) {
  for (auto& key : kNewKeys) {
    if (endOf(key.path, path) != nullptr) return true;
  }
  return false;
}

bool removeWrongNewKeys(YamlStream& stream, const YamlNode& document,
                        kj::ArrayPtr<const Problem> problems) {
  bool removed = false;
  for (auto& problem : problems) {
    if (problem.severity != Problem::Severity::kError) continue;
    for (auto& key : kNewKeys) {
      if (key.inParts) continue;
      KJ_IF_MAYBE (end, endOf(key.path, problem.path)) {
        removed |= removeAt(stream, document, kj::arrayPtr(problem.path.begin(), *end));
      }
    }
  }
  return removed;
}

}  // namespace talos::config
