#include "talosctl/diagnose/pull-failure.h"

#include <string.h>

#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Reason = PullFailure::Reason;

constexpr auto kPullAgain = 6 * kj::MINUTES;  // the kubelet tries again after at most 5

// What stands between the first `before` and the next `after`; empty: it does not.
kj::String between(kj::StringPtr text, kj::StringPtr before, kj::StringPtr after) {
  auto begin = strstr(text.cStr(), before.cStr());
  if (begin == nullptr) return kj::String();
  begin += before.size();
  auto end = strstr(begin, after.cStr());
  if (end == nullptr) return kj::String();
  return kj::heapString(begin, end - begin);
}

// Quotes within quotes of the kubelet's log: \" and \\\".
kj::String withoutBackslashes(kj::StringPtr text) {
  kj::Vector<char> plain(text.size());
  for (char c : text) {
    if (c != '\\') plain.add(c);
  }
  return kj::heapString(plain.asPtr());
}

bool runs(SeenNode node, kj::StringPtr container) {
  for (auto one : node.getContainers()) {
    if (one.getStatus() == "CONTAINER_RUNNING" && one.getId().endsWith(kj::str(":", container))) {
      return true;
    }
  }
  return false;
}

// Kubernetes knows whether the pod of a line is still there, and still waits.
bool isOver(Seen seen, kj::StringPtr pod) {
  if (!seen.hasSurvey() || pod.size() == 0) return false;
  for (auto one : seen.getSurvey().getPods()) {
    if (kj::str(one.getNamespace(), "/", one.getName()) != pod) continue;
    return one.getReady() || one.getDeleted();
  }
  return true;
}

}  // namespace

kj::StringPtr wordsOf(Reason reason) {
  switch (reason) {
    case Reason::kNoSuchImage:
      return "the registry has no such image; check the name and the tag";
    case Reason::kReference:
      return "that is not a valid image reference";
    case Reason::kName:
      return "its name cannot be resolved";
    case Reason::kRefused:
      return "it refuses connections";
    case Reason::kUnreachable:
      return "there is no route to it";
    case Reason::kSilent:
      return "it does not answer";
    case Reason::kCertificate:
      return "its certificate is not trusted";
    case Reason::kCredentials:
      return "it wants other credentials";
    case Reason::kMirrors:
      return "no mirror has it, and the registry itself cannot be reached; check the name and the "
             "tag";
    case Reason::kOther:
      break;
  }
  return "see the evidence";
}

Reason pullReason(kj::StringPtr text) {
  if (hasAny(text,
             {"not a valid image reference", "invalid reference format", "InvalidImageName"})) {
    return Reason::kReference;
  }
  if (hasAny(text, {"authorization failed", "no basic auth", "401 Unauthorized", "403 Forbidden",
                    "pull access denied"})) {
    return Reason::kCredentials;
  }
  if (hasAny(text, {"no such image", "NotFound", ": not found"})) return Reason::kNoSuchImage;
  if (hasAny(text,
             {"server gave HTTP response to HTTPS client", "first record does not look like"})) {
    return Reason::kCertificate;
  }
  switch (failureOf(text)) {
    case DialFailure::kUnknownName:
    case DialFailure::kNoNameServer:
      return Reason::kName;
    case DialFailure::kRefused:
      return Reason::kRefused;
    case DialFailure::kUnreachable:
      return Reason::kUnreachable;
    case DialFailure::kSilent:
      return Reason::kSilent;
    case DialFailure::kCertificate:
      return Reason::kCertificate;
    case DialFailure::kOther:
      break;
  }
  return Reason::kOther;
}

kj::String registryOf(kj::StringPtr image) {
  KJ_IF_MAYBE (slash, image.findFirst('/')) {
    auto host = kj::heapString(image.slice(0, *slash));
    if (hasAny(host, {".", ":"}) || host == "localhost") return host;
  }
  return kj::str("docker.io");
}

kj::Maybe<PullFailure> readPullFailure(kj::StringPtr text) {
  auto plain = withoutBackslashes(text);
  kj::String image = between(plain, "cannot pull \"", "\"");
  if (image.size() == 0) image = between(plain, "failed to pull and unpack image \"", "\"");
  if (image.size() == 0) image = between(plain, "failed to resolve reference \"", "\"");
  if (image.size() == 0) image = between(plain, "Back-off pulling image \"", "\"");
  if (image.size() == 0) return nullptr;
  PullFailure failure;
  failure.reason = pullReason(plain);
  // A mirror is what does not answer, where one is asked.
  auto mirror = between(plain, "\"http", "/v2/");
  KJ_IF_MAYBE (host, mirror.findFirst('/')) {
    auto rest = mirror.slice(*host);
    while (rest.size() > 0 && rest[0] == '/') rest = rest.slice(1);
    failure.host = kj::str(rest);
  } else {
    failure.host = registryOf(image);
  }
  failure.image = kj::mv(image);
  failure.text = kj::str(text);
  return kj::mv(failure);
}

bool isOfRegistry(Reason reason) {
  return reason == Reason::kRefused || reason == Reason::kSilent ||
         reason == Reason::kUnreachable || reason == Reason::kName ||
         reason == Reason::kCertificate;
}

void blameMirrors(SeenNode node, PullFailure& failure) {
  if (!isOfRegistry(failure.reason)) return;
  auto registry = registryOf(failure.image);
  bool mirrored = false;
  for (auto one : node.getFacts().getMirrored()) {
    mirrored = mirrored || one == "*" || one == registry;
  }
  bool itself =
      failure.host == registry || (registry == "docker.io" && failure.host.endsWith(".docker.io"));
  if (!mirrored || !itself) return;
  failure.reason = Reason::kMirrors;
  auto slash = failure.image.findLast('/');
  auto image = failure.image.slice(slash.map([](size_t at) { return at + 1; }).orDefault(0));
  auto name = kj::heapString(image.slice(0, kj::min(image.findFirst(':').orDefault(image.size()),
                                                    image.findFirst('@').orDefault(image.size()))));
  for (auto log : node.getLogs()) {
    if (log.getId() != "cri") continue;
    auto lines = log.getLines();
    for (size_t i = lines.size(); i-- > 0;) {
      if (!has(lines[i], "trying next host") || !has(lines[i], kj::str("/", name, "/manifests")))
        continue;
      auto host = between(kj::str(lines[i], " "), " host=", " ");
      if (host.size() > 1 && host.startsWith("\""))
        host = kj::heapString(host.slice(1, host.size() - 1));
      if (host == failure.host) continue;
      failure.reason = pullReason(lines[i]);
      failure.host = kj::mv(host);
      failure.text = kj::str(lines[i]);
      failure.source = kj::str("logs cri");
      failure.time = 0;
      return;
    }
  }
}

kj::Vector<PullFailure> podPullsOf(Seen seen, SeenNode node) {
  kj::Vector<PullFailure> all;
  for (auto log : node.getLogs()) {
    if (log.getId() != "kubelet") continue;
    auto lines = log.getLines();
    for (size_t i = lines.size(); i-- > 0;) {
      auto line = lines[i];
      if (!has(line, "ErrImagePull") && !has(line, "InvalidImageName")) continue;
      if (!isRecent(seen, node, line, kPullAgain)) continue;
      auto plain = withoutBackslashes(line);
      if (isOver(seen, between(plain, "pod=\"", "\""))) continue;
      auto container = between(plain, "\"StartContainer\" for \"", "\"");
      bool known = container.size() == 0 || runs(node, container);
      for (auto& one : all) known = known || one.container == container;
      if (known) continue;
      KJ_IF_MAYBE (failure, readPullFailure(line)) {
        failure->container = kj::mv(container);
        failure->source = kj::str("logs kubelet");
        blameMirrors(node, *failure);
        all.add(kj::mv(*failure));
      }
    }
  }
  return all;
}

}  // namespace talos::talosctl
