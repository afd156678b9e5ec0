#include "talosctl/upgrade-k8s/upgrade-hazards.h"

#include <map>
#include <string>

#include "common/base/lines.h"
#include "common/text/texts.h"

namespace talos::talosctl {
namespace {

using kube::Json, kube::textAt, kube::itemsAt, kube::find, kube::toPtr;

constexpr kj::StringPtr kMetric = "apiserver_requested_deprecated_apis{"_kj;

using Labels = std::map<std::string, std::string>;

// Reads `group="apps",version="v1"} 1`; nullptr for any other text. `value` is the text after the
// brace.
kj::Maybe<Labels> readLabels(kj::StringPtr text, kj::StringPtr& value) {
  Labels labels;
  const char* at = text.begin();
  while (at != text.end() && *at != '}') {
    std::string key, worth;
    while (at != text.end() && *at != '=') key += *at++;
    if (text.end() - at < 2 || at[1] != '"') return nullptr;
    for (at += 2; at != text.end() && *at != '"'; ++at) {
      if (*at == '\\') ++at;
      if (at == text.end()) return nullptr;
      worth += *at;
    }
    if (at == text.end()) return nullptr;
    ++at;
    if (at != text.end() && *at == ',') ++at;
    labels[std::move(key)] = std::move(worth);
  }
  if (at == text.end()) return nullptr;
  value = kj::StringPtr(at + 1, text.end() - at - 1);
  return kj::mv(labels);
}

DeprecatedApi& entryOf(kj::Vector<DeprecatedApi>& apis, DeprecatedApi&& fresh) {
  for (auto& one : apis) {
    if (one.name() == fresh.name()) return one;
  }
  return apis.add(kj::mv(fresh));
}

kj::Maybe<DeprecatedApi> readMetric(kj::StringPtr line) {
  if (!line.startsWith(kMetric)) return nullptr;
  kj::StringPtr value;
  KJ_IF_MAYBE (labels, readLabels(line.slice(kMetric.size()), value)) {
    auto of = [&](const char* key) -> kj::StringPtr { return toPtr((*labels)[key]); };
    bool counted = strtod(value.cStr(), nullptr) > 0;
    if (!counted || of("version").size() == 0 || of("resource").size() == 0) return nullptr;
    KJ_IF_MAYBE (removed, config::parseKubernetesVersion(of("removed_release"))) {
      auto part = of("subresource");
      return DeprecatedApi{{kj::str(of("group")), kj::str(of("version"))},
                           kj::str(of("resource"), part.size() > 0 ? "/" : "", part),
                           *removed,
                           {},
                           {}};
    }
  }
  return nullptr;
}

// A request that an upgrade makes.
struct Request {
  kj::StringPtr operation, group, resource;
  bool ofSystem;  // in kube-system; otherwise cluster-scoped
};
constexpr Request kRequests[] = {
    {"CREATE"_kj, ""_kj, "pods"_kj, true},        {"DELETE"_kj, ""_kj, "pods"_kj, true},
    {"UPDATE"_kj, ""_kj, "pods/status"_kj, true}, {"UPDATE"_kj, "apps"_kj, "daemonsets"_kj, true},
    {"UPDATE"_kj, ""_kj, "nodes"_kj, false},      {"UPDATE"_kj, ""_kj, "nodes/status"_kj, false},
};

bool lists(const Json& object, kj::StringPtr key, std::initializer_list<kj::StringPtr> any) {
  for (auto item : itemsAt(object, {key})) {
    if (!item->is_string()) continue;
    if (contains(any, toPtr(item->get_ref<const std::string&>()))) return true;
  }
  return false;
}

bool matches(const Json& rule, const Request& request) {
  auto scope = textAt(rule, {"scope"});
  if (scope == (request.ofSystem ? "Cluster"_kj : "Namespaced"_kj)) return false;
  auto allOfPart = kj::str("*"), allParts = kj::str(request.resource);
  KJ_IF_MAYBE (slash, request.resource.findFirst('/')) {
    allOfPart = kj::str("*", request.resource.slice(*slash));
    allParts = kj::str(request.resource.slice(0, *slash), "/*");
  }
  return lists(rule, "operations", {"*", request.operation}) &&
         lists(rule, "apiGroups", {"*", request.group}) &&
         lists(rule, "apiVersions", {"*", "v1"}) &&
         lists(rule, "resources", {"*/*", allOfPart, allParts, request.resource});
}

// Evaluates a label selector of apimachinery's meta/v1 for one set of labels.
bool selects(const Json& selector, const Json& labels) {
  KJ_IF_MAYBE (wanted, find(selector, {"matchLabels"})) {
    for (auto& [key, value] : wanted->items()) {
      if (!value.is_string() || textAt(labels, {toPtr(key)}) != toPtr(value.get<std::string>())) {
        return false;
      }
    }
  }
  for (auto item : itemsAt(selector, {"matchExpressions"})) {
    auto key = textAt(*item, {"key"}), how = textAt(*item, {"operator"});
    bool there = find(labels, {key}) != nullptr;
    bool listed = there && lists(*item, "values", {textAt(labels, {key})});
    bool holds = how == "In" ? listed : how == "NotIn" ? !listed : how == "Exists" ? there : !there;
    if (!holds) return false;
  }
  return true;
}

bool isEmpty(const Json& webhook, kj::StringPtr key) {
  KJ_IF_MAYBE (value, find(webhook, {key})) return value->empty();
  return true;
}

bool isNeeded(const Json& webhook, const Json& systemLabels) {
  auto policy = textAt(webhook, {"failurePolicy"});
  bool judged = isEmpty(webhook, "objectSelector") && isEmpty(webhook, "matchConditions") &&
                textAt(webhook, {"clientConfig", "service", "name"}).size() > 0;
  if (policy == "Ignore" || !judged) return false;
  Json everything = Json::object();
  auto& selector = find(webhook, {"namespaceSelector"}).orDefault(everything);
  bool ofSystem = selects(selector, systemLabels);
  for (auto rule : itemsAt(webhook, {"rules"})) {
    for (auto& request : kRequests) {
      if ((ofSystem || !request.ofSystem) && matches(*rule, request)) return true;
    }
  }
  return false;
}

kj::String describe(const DeprecatedApi& api) {
  auto text =
      kj::str(api.name(), ", which Kubernetes ", api.removedIn.major, ".", api.removedIn.minor,
              " removes (requested of ", kj::strArray(api.servers, ", "), ")");
  if (api.objects.empty()) return text;
  return kj::str(text, "; written in it: ", kj::strArray(api.objects, ", "));
}

}  // namespace

kj::String DeprecatedApi::name() const {
  bool core = groupVersion.group.size() == 0;
  return kj::str(resource, " of ", groupVersion.group, core ? "" : "/", groupVersion.version);
}

void addRequested(kj::Vector<DeprecatedApi>& apis, kj::StringPtr metrics, kj::StringPtr server) {
  for (auto line : Lines(metrics)) {
    KJ_IF_MAYBE (found, readMetric(kj::heapString(line))) {
      if (apis.size() >= kMostDeprecatedApis) return;
      auto& entry = entryOf(apis, kj::mv(*found));
      addOnce(entry.servers, kj::str(server));
    }
  }
}

kj::Vector<kj::StringPtr> writersOf(const Json& object, const kube::GroupVersion& in) {
  auto version = in.group.size() > 0 ? kj::str(in.group, "/", in.version) : kj::str(in.version);
  kj::Vector<kj::StringPtr> writers;
  for (auto entry : itemsAt(object, {"metadata", "managedFields"})) {
    if (textAt(*entry, {"apiVersion"}) != version) continue;
    auto manager = textAt(*entry, {"manager"});
    if (!contains(writers, manager)) writers.add(manager);
  }
  return writers;
}

kj::Vector<SilentWebhook> neededWebhooks(const Json& configuration, const Json& systemLabels) {
  kj::Vector<SilentWebhook> needed;
  for (auto webhook : itemsAt(configuration, {"webhooks"})) {
    if (!isNeeded(*webhook, systemLabels)) continue;
    needed.add(SilentWebhook{kj::str(textAt(configuration, {"metadata", "name"})),
                             kj::str(textAt(*webhook, {"name"})),
                             kj::str(textAt(*webhook, {"clientConfig", "service", "namespace"})),
                             kj::str(textAt(*webhook, {"clientConfig", "service", "name"}))});
  }
  return needed;
}

bool hasReadyEndpoint(const Json& endpoints) {
  for (auto subset : itemsAt(endpoints, {"subsets"})) {
    if (!itemsAt(*subset, {"addresses"}).empty()) return true;
  }
  return false;
}

HazardTexts describe(const UpgradeHazards& hazards, const KubernetesRelease& to) {
  HazardTexts texts;
  kj::Vector<kj::String> reasons;
  KubernetesVersion target{to.version.major, to.version.minor, 0};
  for (auto& api : hazards.apis) {
    auto text = describe(api);
    if (api.removedIn <= target) {
      reasons.add(kj::str(text, "; have it use a version that both releases serve"));
    } else {
      texts.notes.add(kj::str("for a later upgrade: ", text));
    }
  }
  for (auto& webhook : hazards.webhooks) {
    reasons.add(kj::str("the webhook ", webhook.name, " of ", webhook.configuration,
                        " must admit what an upgrade changes, and its Service ", webhook.nameSpace,
                        "/", webhook.service, " has no ready endpoint; have it answer, or exempt ",
                        "kube-system by its namespaceSelector"));
  }
  bool isCertain = !reasons.empty();
  for (auto& one : hazards.unknown) reasons.add(kj::str(one));
  if (!reasons.empty()) {
    texts.refusal = kj::str("Kubernetes ", to.text, isCertain ? " would" : " may",
                            " break this cluster: ", kj::strArray(reasons, "; "),
                            "; nothing was changed, and --force goes on all the same");
  }
  for (auto& note : hazards.notes) texts.notes.add(kj::str(note));
  return texts;
}

}  // namespace talos::talosctl
