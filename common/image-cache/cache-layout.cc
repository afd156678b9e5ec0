#include "common/image-cache/cache-layout.h"

#include "common/base/error.h"
#include "common/text/ascii.h"

namespace talos::imagecache {
namespace {

constexpr kj::StringPtr kSha256 = "sha256:"_kj, kDockerHub = "docker.io"_kj;
constexpr size_t kHexDigits = 64, kLongestName = 255, kLongestTag = 128;

bool isLowerOrDigit(char c) {
  return isLower(c) || isDigit(c);
}

// A part of a repository's name between slashes.
bool isRepositoryPart(kj::ArrayPtr<const char> part) {
  if (part.size() == 0 || !isLowerOrDigit(part.front()) || !isLowerOrDigit(part.back()))
    return false;
  for (char c : part) {
    if (!isLowerOrDigit(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

[[noreturn]] void refuseName(kj::StringPtr text) {
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", text,
               "\" is not a valid name of an image; use for example registry.k8s.io/pause:3.10"));
}

}  // namespace

bool isRegistryName(kj::StringPtr text) {
  auto host = text.asArray();
  KJ_IF_MAYBE (colon, text.findFirst(':')) {
    auto port = text.slice(*colon + 1);
    if (port.size() == 0 || port.size() > 5) return false;
    for (char c : port) {
      if (!isDigit(c)) return false;
    }
    host = text.slice(0, *colon);
  }
  if (host.size() == 0 || host.size() > kLongestName || !isAlphanumeric(host.front())) return false;
  for (char c : host) {
    if (!isAlphanumeric(c) && c != '.' && c != '-') return false;
  }
  return true;
}

bool isRepositoryName(kj::StringPtr text) {
  if (text.size() > kLongestName) return false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '/') continue;
    if (!isRepositoryPart(text.asArray().slice(begin, i))) return false;
    begin = i + 1;
  }
  return true;
}

bool isTag(kj::StringPtr text) {
  if (text.size() == 0 || text.size() > kLongestTag) return false;
  if (!isAlphanumeric(text[0]) && text[0] != '_') return false;
  for (char c : text) {
    if (!isAlphanumeric(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

bool isDigest(kj::StringPtr text) {
  if (!text.startsWith(kSha256) || text.size() != kSha256.size() + kHexDigits) return false;
  for (char c : text.slice(kSha256.size())) {
    if (!isDigit(c) && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

ImageName parseImageName(kj::StringPtr text) {
  ImageName name;
  auto rest = kj::heapString(text);
  KJ_IF_MAYBE (at, rest.findFirst('@')) {
    name.digest = kj::str(rest.slice(*at + 1));
    if (!isDigest(name.digest)) refuseName(text);
    rest = kj::heapString(rest.slice(0, *at));
  }
  size_t nameBegins = 0;
  KJ_IF_MAYBE (slash, rest.findLast('/')) nameBegins = *slash + 1;
  KJ_IF_MAYBE (colon, rest.slice(nameBegins).findFirst(':')) {
    name.tag = kj::str(rest.slice(nameBegins + *colon + 1));
    if (!isTag(name.tag)) refuseName(text);
    rest = kj::heapString(rest.slice(0, nameBegins + *colon));
  } else if (name.digest.size() == 0) {
    name.tag = kj::str("latest");
  }
  name.registry = kj::str(kDockerHub);
  KJ_IF_MAYBE (slash, rest.findFirst('/')) {
    auto first = kj::str(rest.slice(0, *slash));
    if (first.findFirst('.') != nullptr || first.findFirst(':') != nullptr ||
        first == "localhost") {
      name.registry = first == "index.docker.io" ? kj::str(kDockerHub) : kj::mv(first);
      rest = kj::heapString(rest.slice(*slash + 1));
    }
  }
  name.repository = name.registry == kDockerHub && rest.findFirst('/') == nullptr
                        ? kj::str("library/", rest)
                        : kj::mv(rest);
  if (!isRegistryName(name.registry) || !isRepositoryName(name.repository)) refuseName(text);
  return name;
}

kj::String ImageName::text() const {
  return kj::str(registry, "/", repository, tag.size() > 0 ? ":" : "", tag,
                 digest.size() > 0 ? "@" : "", digest);
}

namespace {

// Returns sha256-<hex>: some file systems do not allow colons in names.
kj::String fileOf(kj::StringPtr digest) {
  return kj::str("sha256-", digest.slice(kSha256.size()));
}

}  // namespace

kj::String blobPath(kj::StringPtr digest) {
  return kj::str(kBlobs, "/", fileOf(digest));
}

kj::String repositoryPath(kj::StringPtr registry, kj::StringPtr repository) {
  auto folder = kj::str(registry);
  KJ_IF_MAYBE (colon, registry.findFirst(':')) {
    folder = kj::str(registry.slice(0, *colon), "_", registry.slice(*colon + 1), "_");
  }
  return kj::str(kManifests, "/", folder, "/", repository);
}

kj::String manifestPath(kj::StringPtr registry, kj::StringPtr repository, kj::StringPtr reference) {
  auto folder = repositoryPath(registry, repository);
  return isDigest(reference) ? kj::str(folder, "/digest/", fileOf(reference))
                             : kj::str(folder, "/reference/", reference);
}

}  // namespace talos::imagecache
