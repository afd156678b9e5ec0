#include "common/kube/kubeconfig-merge.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/tls/pki.h"

namespace talos::kube {
namespace {

constexpr MergeKind kClusterKind = {"clusters"_kj, "cluster"_kj, "cluster"_kj, "cluster"_kj};
constexpr MergeKind kUserKind = {"users"_kj, "user"_kj, "auth info"_kj, "user"_kj};
constexpr MergeKind kContextKind = {"contexts"_kj, "context"_kj, "context"_kj, "context"_kj};

std::string toStd(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

std::string base64(kj::StringPtr text) {
  auto encoded = kj::encodeBase64(text.asBytes());
  KJ_DEFER(zeroize(encoded.asArray()));
  return toStd(encoded);
}

void requireKubeconfig(const Json& config) {
  bool fine = config.is_object();
  for (auto list : {"clusters", "users", "contexts"}) {
    KJ_IF_MAYBE (found, find(config, {list}))
      fine = fine && (found->is_array() || found->is_null());
  }
  if (!fine) fail(ErrorKind::kInvalidArgument, "the existing file is not a kubeconfig");
}

kj::Maybe<Json&> entryOf(Json& config, const MergeKind& kind, kj::StringPtr name) {
  auto list = config.find(kind.list.cStr());
  if (list == config.end() || !list->is_array()) return nullptr;
  for (auto& entry : *list) {
    if (textAt(entry, {"name"}) == name) return entry;
  }
  return nullptr;
}

void replaceAll(std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Compares without regard to the order of keys: kubectl rewrites a file with its keys sorted.
bool isSame(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  for (auto& member : a.items()) {
    auto there = b.find(member.key());
    if (there == b.end() || !isSame(member.value(), *there)) return false;
  }
  return true;
}

Json clusterContent(const ReceivedKubeconfig& of) {
  Json content{{"server", toStd(of.server)}};
  if (of.tlsName.size() > 0) content["tls-server-name"] = toStd(of.tlsName);
  content["certificate-authority-data"] = base64(of.authority);
  return content;
}

Json userContent(const ReceivedKubeconfig& of) {
  return {{"client-certificate-data", base64(of.certificate)}, {"client-key-data", base64(of.key)}};
}

// Returns the common name of a user's certificate; empty if there is no readable certificate.
kj::String userName(const Json& user) {
  kj::String name;
  kj::runCatchingExceptions([&] {
    auto decoded = kj::decodeBase64(textAt(user, {"user", "client-certificate-data"}));
    name = kj::str(pki::inspect(kj::str(decoded.asChars())).commonName);
  });
  return name;
}

class KubeconfigMerger {
 public:
  KubeconfigMerger(Json existing, ReceivedKubeconfig added, MergeOptions options)
      : options(kj::mv(options)), added(kj::mv(added)) {
    result.config = kj::mv(existing);
    if (result.config.is_null()) {
      result.config = {{"apiVersion", "v1"}, {"kind", "Config"}};
    }
    requireKubeconfig(result.config);
  }

  kj::Promise<MergedKubeconfig> merge() {
    auto cluster = toStd(added.cluster), user = toStd(added.user), current = toStd(added.context);
    auto newCluster = co_await mergeEntry(kClusterKind, cluster, clusterContent(added));

    auto wantedUser = user;
    if (newCluster != cluster) replaceAll(wantedUser, cluster, newCluster);
    auto newUser = co_await mergeEntry(kUserKind, wantedUser, userContent(added), user);

    auto wantedContext = current;
    if (newUser != user) replaceAll(wantedContext, user, newUser);
    if (options.contextName.size() > 0) wantedContext = toStd(options.contextName);
    Json context{{"cluster", newCluster}};
    if (added.nameSpace.size() > 0) context["namespace"] = toStd(added.nameSpace);
    context["user"] = newUser;
    result.config["current-context"] =
        co_await mergeEntry(kContextKind, wantedContext, kj::mv(context), current);
    co_return kj::mv(result);
  }

 private:
  MergeOptions options;
  ReceivedKubeconfig added;
  MergedKubeconfig result;

  kj::Promise<std::string> mergeEntry(const MergeKind& kind, std::string name, Json content) {
    auto before = name;
    return mergeEntry(kind, kj::mv(name), kj::mv(content), kj::mv(before));
  }

  // Returns the entry's final name; `before`: its name in the added kubeconfig.
  kj::Promise<std::string> mergeEntry(const MergeKind& kind, std::string name, Json content,
                                      std::string before) {
    auto there = entryOf(result.config, kind, name.c_str());
    KJ_IF_MAYBE (entry, there) {
      auto same =
          find(*entry, {kind.content}).map([&](const Json& c) { return isSame(c, content); });
      if (same.orDefault(false)) co_return name;
      if (co_await options.decide(kind, name.c_str()) == MergeChoice::kOverwrite) {
        KJ_ASSERT_NONNULL(entryOf(result.config, kind, name.c_str()))
        [kind.content.cStr()] = kj::mv(content);
        result.replaced.add(kj::str("replaced ", kind.noun, " \"", name.c_str(), "\""));
        co_return name;
      }
      name = freeName(kind, name);
    }
    if (name != before) {
      result.renames.add(
          kj::str("renamed ", kind.noun, " \"", before.c_str(), "\" -> \"", name.c_str(), "\""));
    }
    auto& list = result.config[kind.list.cStr()];
    if (!list.is_array()) list = Json::array();
    Json fresh{{"name", name}};
    fresh[kind.content.cStr()] = kj::mv(content);
    list.push_back(kj::mv(fresh));
    co_return name;
  }

  std::string freeName(const MergeKind& kind, const std::string& name) {
    for (unsigned n = 1;; ++n) {
      auto candidate = name + "-" + std::to_string(n);
      if (entryOf(result.config, kind, candidate.c_str()) == nullptr) return candidate;
    }
  }
};

}  // namespace

kj::Promise<MergedKubeconfig> mergeKubeconfig(Json existing, ReceivedKubeconfig added,
                                              MergeOptions options) {
  KubeconfigMerger merger(kj::mv(existing), kj::mv(added), kj::mv(options));
  co_return co_await merger.merge();
}

bool renewKubeconfig(Json& config, const ReceivedKubeconfig& fresh) {
  requireKubeconfig(config);
  auto name = pki::inspect(fresh.certificate).commonName;
  bool found = false;
  for (auto* cluster : itemsAt(config, {kClusterKind.list})) {
    if (textAt(*cluster, {"cluster", "server"}) != fresh.server) continue;
    found = true;
    auto clusterName = kj::str(textAt(*cluster, {"name"}));
    for (auto* context : itemsAt(config, {kContextKind.list})) {
      if (textAt(*context, {"context", "cluster"}) != clusterName) continue;
      auto user = entryOf(config, kUserKind, textAt(*context, {"context", "user"}));
      KJ_IF_MAYBE (entry, user) {
        if (userName(*entry) == name) (*entry)[kUserKind.content.cStr()] = userContent(fresh);
      }
    }
    KJ_ASSERT_NONNULL(entryOf(config, kClusterKind, clusterName))
    [kClusterKind.content.cStr()] = clusterContent(fresh);
  }
  return found;
}

}  // namespace talos::kube
