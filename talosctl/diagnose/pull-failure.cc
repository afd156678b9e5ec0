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

// Returns HOST of http://HOST/v2/…, which is a mirror if one was used; otherwise the registry.
kj::String hostAsked(kj::StringPtr text, kj::StringPtr image) {
  auto host = between(text, "://", "/v2/");
  return host.size() == 0 || host.findFirst(' ') != nullptr ? registryOf(image) : kj::mv(host);
}

// Returns "503 Service Unavailable" of "unexpected status from HEAD request to URL: 503 Service
// Unavailable; retrying in 5 s"; empty if the text has no such status.
kj::String httpStatusOf(kj::StringPtr text) {
  auto at = strstr(text.cStr(), "unexpected status");
  while (at != nullptr) {
    at = strstr(at + 1, ": ");
    if (at == nullptr || strspn(at + 2, "0123456789") != 3) continue;
    return kj::heapString(at + 2, strcspn(at + 2, ";\"\n"));
  }
  return kj::String();
}

// Returns "web" for docker.io/library/web:v9.
kj::String baseName(kj::StringPtr image) {
  auto name = image.slice(image.findLast('/').map([](size_t at) { return at + 1; }).orDefault(0));
  return kj::heapString(name.cStr(), strcspn(name.cStr(), ":@"));
}

// Returns the lines of containerd's log about mirrors that do not have the image. These lines do
// not name it, so they count only if the newest pull of the image was alone.
kj::Vector<Statement> answersOfMirrors(ObservedNode node, const PullFailure& pull) {
  auto lines = linesOfLog(node, "cri");
  auto begins = kj::str("PullImage \"", pull.image, "\"");
  kj::Vector<Statement> answers;
  for (size_t i = lines.size(); i-- > 0;) {
    auto plain = withoutBackslashes(lines[i]);
    bool other = has(plain, "PullImage \"") && !has(plain, begins);
    if (other && answers.size() > 0) return {};
    if (has(plain, begins) && !has(plain, " failed\"")) return answers;
    if (has(plain, "trying next host - response was ")) {
      answers.add(Statement{kj::str("logs cri"), kj::str(lines[i])});
    }
  }
  return {};
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
  pull.mirrors = answersOfMirrors(node, pull);
}

}  // namespace

bool PullFailure::isOfRegistry() const {
  if (failure == FailureKind::kStatus) return status.startsWith("5") || status.startsWith("429");
  return isConnectionFailure(failure) || isTrustFailure(failure) ||
         failure == FailureKind::kPlainHttp;
}

kj::String PullFailure::description() const {
  return status.size() > 0 && failure == FailureKind::kStatus ? kj::str("it answers ", status)
                                                              : kj::str(describe(failure));
}

kj::StringPtr PullFailure::remedy(kj::StringPtr key) const {
  switch (failure) {
    case FailureKind::kNoSuchImage:
    case FailureKind::kReference:
    case FailureKind::kMirrors:
      // A node decides once in a boot which etcd it runs, and its system has one.
      if (key == kEtcdImageKey) {
        return "talosctl -n {node} edit machineconfig --mode=reboot    # cluster.etcd.image: "
               "correct it, or remove it to run the etcd of the system";
      }
      if (key.size() > 0) {
        return "talosctl -n {node} patch machineconfig --mode=no-reboot -p '[{\"op\": \"add\", "
               "\"path\": "
               "\"{key}\", \"value\": \"<an image that exists>\"}]'";
      }
      return "correct the name, or push the image; then: talosctl -n {node} image pull {image}";
    case FailureKind::kCredentials:
      return "talosctl -n {node} edit machineconfig    # "
             "machine.registries.config.\"{registry}\".auth; or the image's name";
    case FailureKind::kCertificate:
      return "talosctl -n {node} edit machineconfig    # "
             "machine.registries.config.\"{registry}\".tls.ca";
    case FailureKind::kCertificateTime:
      return "renew the certificate of {registry}, or correct the clock: talosctl -n {node} time";
    case FailureKind::kCertificateName:
      return "give {registry} a certificate with this name; or call it by another: talosctl -n "
             "{node} edit machineconfig    # machine.registries.mirrors";
    case FailureKind::kPlainHttp:
      return "talosctl -n {node} edit machineconfig    # machine.registries.mirrors: "
             "\"{registry}\": {endpoints: [\"http://{registry}\"]}";
    case FailureKind::kUnknownName:
      return "correct the name, its record in the DNS, or machine.registries.mirrors; then: "
             "talosctl -n {node} image pull {image}";
    case FailureKind::kNoNameServer:
      return "make the name servers reachable, or set others (machine.network.nameservers); then: "
             "talosctl -n {node} image pull {image}";
    case FailureKind::kRefused:
      return "start the registry {registry}, or change machine.registries.mirrors; then: talosctl "
             "-n {node} image pull {image}";
    case FailureKind::kClosed:
    case FailureKind::kUnreachable:
    case FailureKind::kSilent:
      return "make {registry} reachable from the node (routes, firewalls, proxies), or change "
             "machine.registries.mirrors; then: talosctl -n {node} image pull {image}";
    case FailureKind::kStatus:
      return "look at the log of {registry}; then: talosctl -n {node} image pull {image}";
    case FailureKind::kNoTls:
    case FailureKind::kOther:
      break;
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
                     .statement = kj::mv(statement),
                     .status = httpStatusOf(plain),
                     .mirrors = {}};
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
