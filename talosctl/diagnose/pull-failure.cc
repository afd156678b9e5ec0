#include "talosctl/diagnose/pull-failure.h"

#include "common/base/node-messages.h"

#include <string.h>

namespace talos::talosctl {
namespace {

constexpr auto kRetriedWithin = 6 * kj::MINUTES;  // the kubelet retries after 5 minutes at most

// Returns the text between the first `before` and the next `after`; empty if either is missing.
kj::String between(kj::StringPtr text, kj::StringPtr before, kj::StringPtr after) {
  auto start = strstr(text.cStr(), before.cStr());
  if (start == nullptr) return kj::String();
  start += before.size();
  auto end = strstr(start, after.cStr());
  return end == nullptr ? kj::String() : kj::heapString(start, end - start);
}

// Removes the backslashes of nested quotes in the kubelet's log: \" and \\\".
kj::String withoutBackslashes(kj::StringPtr text) {
  kj::Vector<char> plain(text.size());
  for (char c : text) {
    if (c != '\\') plain.add(c);
  }
  return kj::heapString(plain.asPtr());
}

bool runs(ObservedNode node, kj::StringPtr container) {
  for (auto one : node.getContainers()) {
    if (one.getStatus() == "CONTAINER_RUNNING" && one.getId().endsWith(kj::str(":", container))) {
      return true;
    }
  }
  return false;
}

// Returns true if Kubernetes knows that the pod of a line no longer exists, or no longer waits.
bool isSettled(ObservedCluster cluster, kj::StringPtr pod) {
  if (!cluster.hasSurvey() || pod.size() == 0) return false;
  for (auto one : cluster.getSurvey().getPods()) {
    if (kj::str(one.getNamespace(), "/", one.getName()) != pod) continue;
    return one.getReady() || one.getDeleted();
  }
  return true;
}

// Returns the registry in an image's name, by default docker.io.
kj::String registryOf(kj::StringPtr image) {
  KJ_IF_MAYBE (slash, image.findFirst('/')) {
    auto host = kj::heapString(image.slice(0, *slash));
    if (hasAny(host, {".", ":"}) || host == "localhost") return host;
  }
  return kj::str("docker.io");
}

// Returns HOST of "http://HOST/v2/…", which is a mirror if one was used; otherwise the registry.
kj::String hostAsked(kj::StringPtr text, kj::StringPtr image) {
  auto url = between(text, "\"http", "/v2/");
  auto host = strstr(url.cStr(), "//");
  return host == nullptr ? registryOf(image) : kj::str(host + 2);
}

// Returns "web" for docker.io/library/web:v9.
kj::String baseName(kj::StringPtr image) {
  auto name = image.slice(image.findLast('/').map([](size_t at) { return at + 1; }).orDefault(0));
  return kj::heapString(name.cStr(), strcspn(name.cStr(), ":@"));
}

void blameMirror(ObservedNode node, PullFailure& pull) {
  auto registry = registryOf(pull.image);
  auto mirrored = node.getFacts().getMirrored();
  bool itself =
      pull.host == registry || (registry == "docker.io" && pull.host.endsWith(".docker.io"));
  if (!itself || !(lists(mirrored, "*") || lists(mirrored, registry))) return;
  pull.failure = FailureKind::kMirrors;
  auto manifests = kj::str("/", baseName(pull.image), "/manifests");
  auto lines = linesOfLog(node, "cri");
  for (size_t i = lines.size(); i-- > 0;) {
    if (!has(lines[i], "trying next host") || !has(lines[i], manifests)) continue;
    auto host = between(kj::str(lines[i], " "), " host=", " ");
    if (host.size() > 1 && host.startsWith("\"")) {
      host = kj::heapString(host.slice(1, host.size() - 1));
    }
    if (host == pull.host) continue;
    pull.failure = pullFailureOf(lines[i]);
    pull.host = kj::mv(host);
    pull.statement = Statement{kj::str("logs cri"), kj::str(lines[i])};
    return;
  }
}

}  // namespace

bool PullFailure::isOfRegistry() const {
  switch (failure) {
    case FailureKind::kRefused:
    case FailureKind::kClosed:
    case FailureKind::kSilent:
    case FailureKind::kUnreachable:
    case FailureKind::kUnknownName:
    case FailureKind::kNoNameServer:
    case FailureKind::kCertificate:
      return true;
    default:
      return false;
  }
}

kj::StringPtr PullFailure::remedy(kj::StringPtr key) const {
  bool wrongName = failure == FailureKind::kNoSuchImage || failure == FailureKind::kReference ||
                   failure == FailureKind::kMirrors;
  if (wrongName && key.size() > 0) {
    return "talosctl -n {node} patch machineconfig --mode=no-reboot -p '[{\"op\": \"add\", "
           "\"path\": "
           "\"{key}\", \"value\": \"<an image that exists>\"}]'";
  }
  if (failure == FailureKind::kCredentials) {
    return "talosctl -n {node} edit machineconfig    # machine.registries.config.<host>.auth";
  }
  if (failure == FailureKind::kCertificate) {
    return "talosctl -n {node} edit machineconfig    # machine.registries.config.<host>.tls.ca";
  }
  return "talosctl -n {node} image pull {image}";
}

kj::Maybe<PullFailure> pullFailureOf(ObservedNode node, Statement statement) {
  auto plain = withoutBackslashes(statement.text);
  for (auto before : {messages::kCannotPull, "failed to pull and unpack image \""_kj,
                      "failed to resolve reference \""_kj, "Back-off pulling image \""_kj}) {
    auto image = between(plain, before, "\"");
    if (image.size() == 0) continue;
    PullFailure pull{.failure = pullFailureOf(plain),
                     .image = kj::mv(image),
                     .host = {},
                     .container = {},
                     .statement = kj::mv(statement)};
    pull.host = hostAsked(plain, pull.image);
    if (pull.isOfRegistry()) blameMirror(node, pull);
    return kj::mv(pull);
  }
  return nullptr;
}

kj::Vector<PullFailure> podPullFailures(ObservedCluster cluster, ObservedNode node) {
  kj::Vector<PullFailure> all;
  kj::Vector<kj::String> known;
  auto lines = linesOfLog(node, "kubelet");
  for (size_t i = lines.size(); i-- > 0;) {
    kj::StringPtr line = lines[i];
    if (!hasAny(line, {"ErrImagePull", "InvalidImageName"})) continue;
    if (!isRecent(cluster, node, line, kRetriedWithin)) continue;
    auto plain = withoutBackslashes(line);
    auto container = between(plain, "\"StartContainer\" for \"", "\"");
    if (isSettled(cluster, between(plain, "pod=\"", "\""))) continue;
    if (container.size() == 0 || runs(node, container)) continue;
    KJ_IF_MAYBE (pull, pullFailureOf(node, Statement{kj::str("logs kubelet"), kj::str(line)})) {
      if (!isFirst(known, container)) continue;
      pull->container = kj::mv(container);
      all.add(kj::mv(*pull));
    }
  }
  return all;
}

}  // namespace talos::talosctl
