#include "common/kube/kubeconfig-merge.h"

#include "common/base/error.h"

namespace talos::kube {
namespace {

constexpr MergeKind kClusterKind = {"clusters"_kj, "cluster"_kj, "cluster"_kj, "cluster"_kj};
constexpr MergeKind kUserKind = {"users"_kj, "user"_kj, "auth info"_kj, "user"_kj};
constexpr MergeKind kContextKind = {"contexts"_kj, "context"_kj, "context"_kj, "context"_kj};

std::string toStd(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

void requireKubeconfig(const Json& config, kj::StringPtr which) {
  bool fine = config.is_object();
  for (auto list : {"clusters", "users", "contexts"}) {
    KJ_IF_MAYBE (found, find(config, {list}))
      fine = fine && (found->is_array() || found->is_null());
  }
  if (!fine) fail(ErrorKind::kInvalidArgument, kj::str(which, " is not a kubeconfig"));
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

// In any order of keys: kubectl rewrites a file with its keys sorted.
bool isSame(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  for (auto& member : a.items()) {
    auto there = b.find(member.key());
    if (there == b.end() || !isSame(member.value(), *there)) return false;
  }
  return true;
}

class KubeconfigMerger {
 public:
  KubeconfigMerger(Json existing, Json added, MergeOptions options)
      : options(kj::mv(options)), added(kj::mv(added)) {
    result.config = kj::mv(existing);
    if (result.config.is_null()) {
      result.config = {{"apiVersion", "v1"}, {"kind", "Config"}};
    }
    requireKubeconfig(result.config, "the existing file");
    requireKubeconfig(this->added, "what the node sent");
  }

  kj::Promise<MergedKubeconfig> merge() {
    auto current = textAt(added, {"current-context"});
    auto context = co_await mergeContext(toStd(current));
    result.config["current-context"] = context;
    co_return kj::mv(result);
  }

 private:
  MergeOptions options;
  Json added;
  MergedKubeconfig result;

  // The context that is the current one, and what it refers to: what the node writes has no other.
  kj::Promise<std::string> mergeContext(std::string current) {
    auto context = contentOf(kContextKind, current);
    auto cluster = toStd(textAt(context, {"cluster"})), user = toStd(textAt(context, {"user"}));
    auto newCluster = co_await mergeEntry(kClusterKind, cluster, contentOf(kClusterKind, cluster));

    auto wantedUser = user;
    if (newCluster != cluster) replaceAll(wantedUser, cluster, newCluster);
    auto newUser = co_await mergeEntry(kUserKind, wantedUser, contentOf(kUserKind, user), user);

    auto wantedContext = current;
    if (newUser != user) replaceAll(wantedContext, user, newUser);
    if (options.contextName.size() > 0) wantedContext = toStd(options.contextName);
    context["cluster"] = newCluster;
    context["user"] = newUser;
    co_return co_await mergeEntry(kContextKind, wantedContext, kj::mv(context), current);
  }

  Json contentOf(const MergeKind& kind, const std::string& name) {
    KJ_IF_MAYBE (entry, entryOf(added, kind, name.c_str())) {
      KJ_IF_MAYBE (content, find(*entry, {kind.content})) return *content;
    }
    fail(ErrorKind::kInvalidArgument, kj::str("what the node sent is not a kubeconfig: it has no ",
                                              kind.asked, " \"", name.c_str(), "\""));
  }

  kj::Promise<std::string> mergeEntry(const MergeKind& kind, std::string name, Json content) {
    auto before = name;
    return mergeEntry(kind, kj::mv(name), kj::mv(content), kj::mv(before));
  }

  // The name that it has in the end; `before`: in what was added.
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

kj::Promise<MergedKubeconfig> mergeKubeconfig(Json existing, Json added, MergeOptions options) {
  KubeconfigMerger merger(kj::mv(existing), kj::mv(added), kj::mv(options));
  co_return co_await merger.merge();
}

}  // namespace talos::kube
