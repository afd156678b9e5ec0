#include "common/kube/kube-api.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/text/foreign-text.h"

namespace talos::kube {
namespace {

constexpr auto kLongestRetry = 1 * kj::MINUTES;
constexpr size_t kMostMessage = 1000;  // of a server's message

ErrorKind kindOfStatus(unsigned status) {
  switch (status) {
    case 401:
      return ErrorKind::kUnauthenticated;
    case 403:
      return ErrorKind::kPermissionDenied;
    case 404:
      return ErrorKind::kNotFound;
    case 409:
    case 410:
      return ErrorKind::kConflict;
    case 429:
      return ErrorKind::kResourceExhausted;
    default:
      return status >= 500 || status == 408 ? ErrorKind::kUnavailable : ErrorKind::kInvalidArgument;
  }
}

kj::Maybe<Json> statusIn(kj::ArrayPtr<const char> body) {
  kj::Maybe<Json> status;
  kj::runCatchingExceptions([&]() {
    auto value = readJson(body, "the answer");
    if (textAt(value, {"kind"}) == "Status") status = kj::mv(value);
  });
  return status;
}

WatchEvent::Type watchTypeOf(kj::StringPtr name) {
  if (name == "ADDED") return WatchEvent::Type::kAdded;
  if (name == "MODIFIED") return WatchEvent::Type::kModified;
  if (name == "DELETED") return WatchEvent::Type::kDeleted;
  if (name == "BOOKMARK") return WatchEvent::Type::kBookmark;
  fail(ErrorKind::kInvalidArgument, "a watch has sent an event of an unknown type");
}

kj::String encoded(kj::StringPtr part) {
  return kj::encodeUriComponent(part);
}

}  // namespace

Resource Resource::clone() const {
  return {kj::str(group), kj::str(version), kj::str(plural), kj::str(kind), namespaced};
}

kj::String Resource::apiVersion() const {
  return group.size() == 0 ? kj::str(version) : kj::str(group, "/", version);
}

Resource coreResource(kj::StringPtr plural, kj::StringPtr kind, bool namespaced) {
  return {kj::str(), kj::str("v1"), kj::str(plural), kj::str(kind), namespaced};
}

Resource appsResource(kj::StringPtr plural, kj::StringPtr kind) {
  return {kj::str("apps"), kj::str("v1"), kj::str(plural), kj::str(kind), true};
}

Resource certificateRequests() {
  return {.group = kj::str("certificates.k8s.io"),
          .version = kj::str("v1"),
          .plural = kj::str("certificatesigningrequests"),
          .kind = kj::str("CertificateSigningRequest"),
          .namespaced = false};
}

Resource roleBindings() {
  return {.group = kj::str("rbac.authorization.k8s.io"),
          .version = kj::str("v1"),
          .plural = kj::str("clusterrolebindings"),
          .kind = kj::str("ClusterRoleBinding"),
          .namespaced = false};
}

GroupVersion readApiVersion(kj::StringPtr text) {
  GroupVersion result{kj::str(), kj::str(text)};
  KJ_IF_MAYBE (slash, text.findFirst('/')) {
    result = {kj::heapString(text.slice(0, *slash)), kj::str(text.slice(*slash + 1))};
    if (result.group.size() == 0) result.version = nullptr;
  }
  if (result.version.size() == 0 || result.version.findFirst('/') != nullptr) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", text, "\" is not a valid apiVersion; use VERSION or GROUP/VERSION"));
  }
  return result;
}

kj::String pathOf(const GroupVersion& groupVersion) {
  if (groupVersion.group.size() == 0) return kj::str("/api/", encoded(groupVersion.version));
  return kj::str("/apis/", encoded(groupVersion.group), "/", encoded(groupVersion.version));
}

kj::String pathOf(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name,
                  kj::StringPtr subresource) {
  auto path = pathOf(GroupVersion{kj::str(resource.group), kj::str(resource.version)});
  if (resource.namespaced && nameSpace.size() > 0) {
    path = kj::str(path, "/namespaces/", encoded(nameSpace));
  }
  path = kj::str(path, "/", encoded(resource.plural));
  if (name.size() > 0) path = kj::str(path, "/", encoded(name));
  if (subresource.size() > 0) path = kj::str(path, "/", encoded(subresource));
  return path;
}

void addQuery(kj::String& path, kj::StringPtr key, kj::StringPtr value) {
  auto sign = path.findFirst('?') == nullptr ? "?"_kj : "&"_kj;
  path = kj::str(path, sign, encoded(key), "=", encoded(value));
}

kj::Maybe<kj::String> evictionVersionOf(const Json& discovery) {
  for (auto item : itemsAt(discovery, {"resources"})) {
    if (textAt(*item, {"name"}) != "pods/eviction") continue;
    auto group = textAt(*item, {"group"}), version = textAt(*item, {"version"});
    if (group.size() > 0 && version.size() > 0) return kj::str(group, "/", version);
  }
  return nullptr;
}

Json evictionOf(kj::StringPtr nameSpace, kj::StringPtr name, kj::StringPtr uid,
                kj::Maybe<kj::Duration> grace) {
  auto options = Json::object();
  KJ_IF_MAYBE (given, grace) options["gracePeriodSeconds"] = *given / kj::SECONDS;
  options["preconditions"] = Json{{"uid", uid.cStr()}};
  return {{"kind", "Eviction"},
          {"metadata", {{"name", name.cStr()}, {"namespace", nameSpace.cStr()}}},
          {"deleteOptions", kj::mv(options)}};
}

kj::Maybe<Resource> resourceOf(const Json& discovery, const GroupVersion& groupVersion,
                               kj::StringPtr kind) {
  for (auto item : itemsAt(discovery, {"resources"})) {
    auto plural = textAt(*item, {"name"});
    // Subresources are listed beside: "pods/eviction".
    if (textAt(*item, {"kind"}) != kind || plural.findFirst('/') != nullptr) continue;
    return Resource{kj::str(groupVersion.group), kj::str(groupVersion.version), kj::str(plural),
                    kj::str(kind), flagAt(*item, {"namespaced"})};
  }
  return nullptr;
}

kj::Exception errorOf(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body,
                      kj::StringPtr doing) {
  auto cause = kj::str(status, " ", fieldText(statusText, kMostMessage));
  KJ_IF_MAYBE (object, statusIn(body)) {
    auto message = textAt(*object, {"message"});
    if (message.size() > 0) cause = fieldText(message, kMostMessage);
  }
  return error(kindOfStatus(status), kj::str("cannot ", doing, ": ", cause));
}

kj::Vector<FieldConflict> conflictsOf(kj::ArrayPtr<const char> body) {
  kj::Vector<FieldConflict> conflicts;
  KJ_IF_MAYBE (object, statusIn(body)) {
    for (auto cause : itemsAt(*object, {"details", "causes"})) {
      if (textAt(*cause, {"reason"}) != "FieldManagerConflict") continue;
      // `conflict with "kubectl-edit" using apps/v1`
      auto message = textAt(*cause, {"message"});
      auto begin = message.findFirst('"').map([](size_t at) { return at + 1; });
      kj::String manager;
      KJ_IF_MAYBE (from, begin) {
        auto rest = message.slice(*from);
        KJ_IF_MAYBE (length, rest.findFirst('"')) manager = kj::heapString(rest.slice(0, *length));
      }
      conflicts.add(FieldConflict{kj::mv(manager), kj::str(textAt(*cause, {"field"}))});
    }
  }
  return conflicts;
}

kj::String failedChecks(kj::ArrayPtr<const char> body) {
  kj::Vector<kj::String> failed;
  size_t size = 0;
  for (auto rest = body; rest.size() > 0;) {
    size_t end = 0;
    while (end < rest.size() && rest[end] != '\n') ++end;
    auto line = rest.slice(0, end);
    rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
    bool fails = line.size() > 3 && line[0] == '[' && line[1] == '-' && line[2] == ']';
    if (!fails) continue;
    size += line.size();
    if (size <= kMostFailedChecks) failed.add(fieldText(line, kMostMessage));
  }
  return kj::strArray(failed, ", ");
}

bool saysAlreadyExists(unsigned status, kj::ArrayPtr<const char> body) {
  if (status != 409) return false;
  KJ_IF_MAYBE (object, statusIn(body)) {
    return textAt(*object, {"reason"}) == "AlreadyExists";
  }
  return false;
}

kj::Maybe<kj::Duration> readRetryAfter(kj::StringPtr header) {
  return header.tryParseAs<uint32_t>().map(
      [](uint32_t seconds) { return kj::min(seconds * kj::SECONDS, kLongestRetry); });
}

WatchEvent readWatchEvent(kj::ArrayPtr<const char> line) {
  auto value = readJson(line, "an event of a watch");
  KJ_IF_MAYBE (object, find(value, {"object"})) {
    if (textAt(value, {"type"}) == "ERROR") {
      auto status = static_cast<unsigned>(numberAt(*object, {"code"}, 500));
      kj::throwFatalException(errorOf(status, "", writeJson(*object), "watch"));
    }
    return {watchTypeOf(textAt(value, {"type"})), *object};
  }
  fail(ErrorKind::kInvalidArgument, "a watch has sent an event without an object");
}

kj::Vector<kj::String> LineAssembler::add(kj::ArrayPtr<const char> piece) {
  kj::Vector<kj::String> lines;
  for (char c : piece) {
    if (c == '\n') {
      if (begun.size() > 0) lines.add(kj::heapString(begun.asPtr()));
      begun.clear();
    } else if (begun.size() == longest) {
      fail(ErrorKind::kResourceExhausted,
           kj::str(name, " of the answer is longer than ", longest, " bytes"));
    } else {
      begun.add(c);
    }
  }
  return lines;
}

}  // namespace talos::kube
